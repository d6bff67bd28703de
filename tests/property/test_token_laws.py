"""Nothing but a token opens a service: whatever else stands in the header, and whatever is changed in a token."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_engine.adapters.identity.authenticator import TokenAuthenticator
from context_engine.adapters.identity.held_tokens import ApiToken, FileTokens, StoredTokens
from context_engine.adapters.identity.jwt_tokens import JwtTokens
from context_engine.adapters.identity.remote_keys import KeySet, read_key_set
from context_engine.core.models import Authenticated
from context_engine.errors import NotAuthenticated
from context_engine.settings.access_file import AccessFile
from context_engine.settings.principals import Principals, token_hash
from context_engine.settings.token_store import TokenStore
from context_engine.testing.fakes import FixedClock

NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)
API = "Harbour token with blanks, 32 and more"
OF_FILE = "ce_0123456789_" + "f" * 43
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

HEADER_TEXT = st.text(st.characters(max_codepoint=255), max_size=80)


class _Keys:
    problem = ""

    def __init__(self, current: KeySet) -> None:
        self.current = current

    def want(self) -> None:
        pass

    def close(self) -> None:
        pass


class Bank:
    """A service with a token of every kind."""

    def __init__(self, folder: Path, identity: Any) -> None:
        access = AccessFile.model_validate(
            {
                "version": 1,
                "principals": {"desk": {"tokens": [{"sha256": token_hash(OF_FILE)}]}},
                "claims": {"roles": "roles"},
                "oidc": {
                    "issuer": identity.ISSUER,
                    "audience": identity.AUDIENCE,
                    "algorithms": ["ES256", "EdDSA"],
                    "jwks": "keys",
                },
            }
        )
        assert access.oidc is not None
        who, store = Principals(access), TokenStore(folder)
        keys: Any = _Keys(read_key_set({"keys": [identity.jwk("k1"), identity.jwk("k2", "EdDSA")]}))
        self.stored = store.add("x", "api", now=NOW).text
        self.jwts = [identity.access_token("k1"), identity.access_token("k2", "EdDSA")]
        self.tokens = [API, OF_FILE, self.stored, *self.jwts]
        kinds = [ApiToken(API, who), StoredTokens(store, who), FileTokens(who), JwtTokens(access.oidc, keys, who)]
        self._check = TokenAuthenticator(kinds, FixedClock(NOW))

    def caller(self, header: str | None) -> Authenticated | None:
        try:
            return self._check.authenticate(header)
        except NotAuthenticated:
            return None


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory, identity: Any) -> Bank:
    return Bank(tmp_path_factory.mktemp("bank"), identity)


def test_each_token_opens(bank: Bank) -> None:
    found = [bank.caller(f"Bearer {token}") for token in bank.tokens]
    assert [one and one.principal.id for one in found] == ["api", "desk", "api", "u-4711", "u-4711"]


@given(header=st.one_of(HEADER_TEXT, st.builds("Bearer {}".format, HEADER_TEXT), st.text(max_size=80)))
def test_nothing_else_in_the_header_opens(bank: Bank, header: str) -> None:
    assert bank.caller(header) is None


@given(data=st.data())
def test_no_part_of_a_token_and_no_more_than_it_opens(bank: Bank, data: st.DataObject) -> None:
    token = data.draw(st.sampled_from(bank.tokens))
    start = data.draw(st.integers(0, len(token)))
    end = data.draw(st.integers(start, len(token)))
    around = st.text("ab=.%\x00\x0b\x85\xa0_-", max_size=2)
    text = data.draw(around) + token[start:end] + data.draw(around)
    scheme = data.draw(st.sampled_from(["Bearer", "bearer", "Basic", "Token", ""]))
    opened = bank.caller(f"{scheme} {text}") is not None
    assert opened == (scheme.lower() == "bearer" and text == token)


@given(data=st.data())
def test_no_other_letter_anywhere_opens(bank: Bank, data: st.DataObject) -> None:
    token = data.draw(st.sampled_from(bank.tokens))
    place = data.draw(st.integers(0, len(token) - 1))
    letter = data.draw(st.characters(min_codepoint=33, max_codepoint=255).filter(lambda one: one != token[place]))
    assert bank.caller(f"Bearer {token[:place]}{letter}{token[place + 1 :]}") is None


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1], ids=["ES256", "EdDSA"])
def test_a_jwt_with_any_byte_changed_is_refused(bank: Bank, which: int) -> None:
    parts = [base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in bank.jwts[which].split(".")]
    for number, part in enumerate(parts):
        for place in range(len(part)):
            for change in (0x01, 0x20, 0x80):
                changed = bytearray(part)
                changed[place] ^= change
                tampered = [*parts[:number], bytes(changed), *parts[number + 1 :]]
                token = b".".join(base64.urlsafe_b64encode(one).rstrip(b"=") for one in tampered).decode()
                assert bank.caller(f"Bearer {token}") is None, (number, place, change)


@pytest.mark.slow
def test_the_spare_bits_of_base64_are_no_other_token(bank: Bank) -> None:
    for token in bank.jwts:
        for part_end in [place for place, one in enumerate(token + ".") if one == "."]:
            for letter in ALPHABET:
                if letter != token[part_end - 1]:
                    assert bank.caller(f"Bearer {token[: part_end - 1]}{letter}{token[part_end:]}") is None


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    head=st.dictionaries(
        st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk", "zip"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.sampled_from(["ES256", "none", "HS256", "k1", "JWT", ""]),
            lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
            max_leaves=3,
        ),
    ),
    signature=st.binary(max_size=70),
)
def test_no_header_makes_up_for_a_signature(bank: Bank, identity: Any, head: dict[str, Any], signature: bytes) -> None:
    assert bank.caller(f"Bearer {identity.unsigned(head, identity.claims(), signature)}") is None
