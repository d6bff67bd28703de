"""Access tokens of an identity provider: what is taken, and everything that is not."""

from __future__ import annotations

import base64
import json
import logging
from datetime import timedelta
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from context_engine.adapters.identity.authenticator import ShownToken
from context_engine.adapters.identity.jwt_tokens import JwtTokens
from context_engine.adapters.identity.remote_keys import KeySet, read_key_set
from context_engine.core.models import Authenticated, Classification
from context_engine.errors import TokensUnchecked
from context_engine.settings.access_file import AccessFile
from context_engine.settings.principals import Principals, token_hash

LEEWAY_S = 30
ALGORITHMS = ["RS256", "PS256", "ES256", "ES384", "ES512", "EdDSA"]


class Keys:
    """The keys as they are now; counts how often others were wanted."""

    def __init__(self, current: KeySet | None) -> None:
        self.current, self.problem, self.wanted = current, "not asked", 0

    def want(self) -> None:
        self.wanted += 1

    def close(self) -> None:
        pass


class Provider:
    def __init__(self, identity: Any, **oidc: Any) -> None:
        self.identity = identity
        self.keys = Keys(read_key_set({"keys": [identity.jwk(f"k-{name}", name) for name in ALGORITHMS]}))
        form = {"issuer": identity.ISSUER, "audience": identity.AUDIENCE, "algorithms": ALGORITHMS, "jwks": "keys"}
        access = AccessFile.model_validate(
            {
                "version": 1,
                "principals": {"desk": {"roles": ["board"], "operator": True}},
                "claims": {"roles": "roles", "clearance": "clearance"},
                "oidc": {**form, "leeway_s": LEEWAY_S, **oidc},
            }
        )
        assert access.oidc is not None
        self.tokens = JwtTokens(access.oidc, self.keys, Principals(access))  # type: ignore[arg-type]

    def token(self, algorithm: str = "ES256", **more: Any) -> str:
        made: str = self.identity.access_token(f"k-{algorithm}", algorithm, **more)
        return made

    def caller(self, token: str, seconds: float = 0) -> Authenticated | None:
        now = self.identity.NOW + timedelta(seconds=seconds)
        return self.tokens.caller(ShownToken(token.encode(), token_hash(token), now))


@pytest.fixture
def bank(identity: Any) -> Provider:
    return Provider(identity)


class TestTaken:
    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    def test_a_good_token_of_each_algorithm_is_whom_its_claims_say(self, bank: Provider, algorithm: str) -> None:
        found = bank.caller(bank.token(algorithm, clearance="confidential"))
        assert found is not None
        assert (found.principal.id, found.principal.roles) == ("u-4711", {"analyst"})
        assert found.principal.clearance is Classification.CONFIDENTIAL
        assert (found.token_id, found.operator, found.gateway) == ("t-1", False, False)

    @pytest.mark.parametrize("typed", ["JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt", None])
    def test_the_type_is_that_of_an_access_token_or_says_nothing(self, bank: Provider, typed: str | None) -> None:
        assert bank.caller(bank.token(header={"typ": typed})) is not None

    @pytest.mark.parametrize(("typed", "taken"), [("JWT", False), (None, False), ("at+jwt", True)])
    def test_untyped_ones_are_refused_where_that_is_said(self, identity: Any, typed: str | None, taken: bool) -> None:
        bank = Provider(identity, at_jwt_only=True)
        assert (bank.caller(bank.token(header={"typ": typed})) is not None) is taken

    @pytest.mark.parametrize("audience", ["context-engine", ["other", "context-engine"]])
    def test_one_of_its_audiences_is_this_service(self, bank: Provider, audience: Any) -> None:
        assert bank.caller(bank.token(aud=audience)) is not None

    def test_without_a_name_it_is_called_by_its_hash(self, bank: Provider) -> None:
        token = bank.token(jti=None)
        found = bank.caller(token)
        assert found is not None and found.token_id == token_hash(token)[:12]


class TestTime:
    @pytest.mark.parametrize(
        ("seconds", "taken"),
        [(-30.5, False), (-30, True), (0, True), (300, True), (329.5, True), (330, False)],  # exp 300 + leeway 30
    )
    def test_it_is_good_from_nbf_until_exp_with_the_leeway(self, bank: Provider, seconds: float, taken: bool) -> None:
        assert (bank.caller(bank.token(), seconds) is not None) is taken

    def test_what_is_known_by_its_hash_ends_too(self, bank: Provider) -> None:
        token = bank.token()
        assert [bank.caller(token, seconds) is not None for seconds in (0, 329.5, 330, 0, -31)] == [
            True,
            True,
            False,
            True,
            False,
        ]

    @pytest.mark.parametrize("claim", ["exp", "iss", "aud"])
    def test_what_must_be_there_is_missed(self, bank: Provider, claim: str) -> None:
        assert bank.caller(bank.token(**{claim: None})) is None

    def test_nbf_or_iat_may_be_missing_and_must_not_be_ahead(self, bank: Provider) -> None:
        at = int(bank.identity.NOW.timestamp())
        assert bank.caller(bank.token(iat=None)) is not None
        assert bank.caller(bank.token(nbf=None)) is not None  # many providers send none
        assert bank.caller(bank.token(nbf=None, iat=None)) is None
        assert bank.caller(bank.token(nbf=None, iat=at + LEEWAY_S + 1)) is None
        assert bank.caller(bank.token(iat=at + LEEWAY_S)) is not None
        assert bank.caller(bank.token(iat=at + LEEWAY_S + 1)) is None

    @pytest.mark.parametrize("claim", ["exp", "nbf", "iat"])
    @pytest.mark.parametrize("value", ["1772445600", True, [], 1e300, 10**400, {"a": 1}])
    def test_a_moment_of_another_form_is_refused(self, bank: Provider, claim: str, value: Any) -> None:
        assert bank.caller(bank.token(**{claim: value})) is None


class TestRefused:
    @pytest.mark.parametrize(
        "claims",
        [
            {"iss": "https://id.meridian-harbour.example/staff/"},
            {"iss": ["https://id.meridian-harbour.example/staff"]},
            {"aud": "context-engine-2"},
            {"aud": []},
            {"aud": ["other"]},
            {"sub": None},
            {"sub": ""},
            {"sub": 7},
            {"sub": "u\ud800"},
            {"sub": "u\n1"},
            {"sub": "u" * 201},
            {"at_hash": "x"},
            {"c_hash": "x"},
            {"cnf": {"jkt": "x"}},
        ],
    )
    def test_a_token_for_somebody_else_or_of_another_kind(self, bank: Provider, claims: dict[str, Any]) -> None:
        assert bank.caller(bank.token(**claims)) is None

    @pytest.mark.parametrize("name", ["desk", "api"])
    def test_nobody_is_a_principal_of_the_file_by_naming_themselves_so(self, bank: Provider, name: str) -> None:
        assert bank.caller(bank.token(sub=name)) is None

    @pytest.mark.parametrize(
        "header",
        [
            {"typ": "logout+jwt"},
            {"typ": "dpop+jwt"},
            {"typ": 7},
            {"crit": ["exp"], "exp": 1},
            {"crit": ["b64"], "b64": True},
            {"crit": []},
            {"b64": True},
        ],
    )
    def test_a_header_of_another_kind(self, bank: Provider, header: dict[str, Any]) -> None:
        claims = json.dumps(bank.identity.claims()).encode()
        head = {"alg": "ES256", "kid": "k-ES256", "typ": "at+jwt", **header}
        key = bank.identity.private_key("k-ES256", "ES256")
        signed = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in (json.dumps(head).encode(), claims))
        signature = jwt.algorithms.ECAlgorithm(jwt.algorithms.ECAlgorithm.SHA256).sign(signed, key)
        token = (signed + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()
        assert bank.caller(token) is None

    @pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", None, ["ES256"], 7])
    def test_an_unsigned_one(self, bank: Provider, algorithm: Any) -> None:
        for signature in (b"", b"x"):
            head = {"alg": algorithm, "kid": "k-ES256", "typ": "at+jwt"}
            assert bank.caller(bank.identity.unsigned(head, bank.identity.claims(), signature)) is None

    @pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
    @pytest.mark.parametrize("kid", ["k-RS256", "k-ES256"])
    def test_the_public_key_is_no_shared_secret(self, bank: Provider, algorithm: str, kid: str) -> None:
        import hashlib
        import hmac

        public = bank.identity.private_key(kid, kid[2:]).public_key()
        pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        head = {"alg": algorithm, "kid": kid, "typ": "at+jwt"}
        unsigned = bank.identity.unsigned(head, bank.identity.claims()).rstrip(".").encode()
        digest = hmac.new(pem, unsigned, getattr(hashlib, f"sha{algorithm[2:]}")).digest()
        assert bank.caller(f"{unsigned.decode()}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}") is None

    def test_an_algorithm_that_is_not_configured(self, identity: Any) -> None:
        bank = Provider(identity, algorithms=["RS256"])
        assert bank.caller(bank.token("RS256")) is not None
        assert bank.caller(bank.token("PS256")) is None and bank.caller(bank.token("ES256")) is None

    @pytest.mark.parametrize(
        ("kid", "algorithm"), [("k-RS256", "PS256"), ("k-RS256", "ES256"), ("k-ES384", "ES256"), ("k-EdDSA", "ES256")]
    )
    def test_a_key_is_for_its_own_algorithm(self, bank: Provider, kid: str, algorithm: str) -> None:
        assert bank.caller(bank.identity.access_token(kid, algorithm)) is None

    def test_a_key_in_the_token_itself_counts_for_nothing(self, bank: Provider) -> None:
        head = {"jwk": bank.identity.jwk("own"), "jku": "http://127.0.0.1:1/", "kid": "own"}
        assert bank.caller(bank.identity.access_token("own", header=head)) is None

    @pytest.mark.parametrize("kid", [None, 7, ["k-ES256"], ""])
    def test_one_that_does_not_name_its_key(self, bank: Provider, kid: Any) -> None:
        head = {"alg": "ES256", "kid": kid, "typ": "at+jwt"}
        assert bank.caller(bank.identity.unsigned(head, bank.identity.claims(), b"x" * 64)) is None
        assert bank.keys.wanted == (kid == "")

    def test_an_unknown_key_is_refused_at_once_and_wanted(self, bank: Provider) -> None:
        assert bank.caller(bank.identity.access_token("new")) is None
        assert bank.keys.wanted == 1

    def test_without_keys_no_token_is_refused_or_taken_and_it_is_said(self, bank: Provider) -> None:
        token = bank.token()
        bank.keys.current = None
        with pytest.raises(TokensUnchecked):
            bank.caller(token)
        assert bank.keys.wanted == 1 and bank.caller("no.token") is None
        assert len(bank.tokens.problems()) == 1

    def test_a_key_that_was_taken_away_opens_nothing_though_it_did_before(self, bank: Provider) -> None:
        token = bank.token()
        assert bank.caller(token) is not None
        bank.keys.current = read_key_set({"keys": [bank.identity.jwk("k2")]})
        assert bank.caller(token) is None

    @pytest.mark.parametrize("token", ["", "a.b.c", "eyJ.x.y", "eyJhbGciOiJub25lIn0..", "eyJ" + "a" * 9000])
    def test_what_is_no_token(self, bank: Provider, token: str) -> None:
        assert bank.caller(token) is None and bank.keys.wanted == 0

    @pytest.mark.parametrize("more", ["=", "==", " ", "\n", ".", ".e30", "%3D"])
    def test_anything_behind_it(self, bank: Provider, more: str) -> None:
        assert bank.caller(bank.token() + more) is None

    def test_the_log_says_why_by_the_id_of_the_key_and_holds_no_token(
        self, bank: Provider, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        token = bank.token(aud="other")
        bank.caller(token)
        assert "k-ES256" in caplog.text and not any(part in caplog.text for part in token.split("."))


class TestKeySet:
    def test_what_cannot_check_a_signature_is_left_out(self, identity: Any) -> None:
        private = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(identity.private_key("p")))
        rows = [
            identity.jwk("enc", use="enc"),
            identity.jwk("sign", use=None, key_ops=["sign"]),
            identity.jwk("other", alg="RS256"),
            {**identity.jwk("no-id"), "kid": None},
            {**private, "kid": "private"},
            {"kty": "oct", "kid": "shared", "k": "c2VjcmV0"},
            {"kty": ["EC"], "kid": "odd"},
            {"kty": "EC", "crv": "P-256", "kid": "broken", "x": "!", "y": []},
            {"kty": "OKP", "crv": "X25519", "kid": "exchange", "x": "AAAA"},
            "no key",
            identity.jwk("good", alg=None, use=None),
        ]
        found = read_key_set({"keys": rows})
        assert len(found) == 1 and found.find("good", "ES256") is not None
        assert found.find("good", "ES384") is None and found.find("good", "RS256") is None

    def test_a_short_rsa_key_is_none(self, identity: Any) -> None:
        from cryptography.hazmat.primitives.asymmetric import rsa

        short = rsa.generate_private_key(public_exponent=65537, key_size=1024).public_key()
        row = {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(short)), "kid": "short", "use": "sig"}
        row.pop("key_ops", None)
        with pytest.raises(ValueError, match="none of its 1 keys"):
            read_key_set({"keys": [row]})

    @pytest.mark.parametrize("document", [None, [], "x", {}, {"keys": None}, {"keys": {}}, {"keys": []}])
    def test_what_is_no_key_set_is_refused(self, document: Any) -> None:
        with pytest.raises(ValueError, match=r"(?i)key"):
            read_key_set(document)
