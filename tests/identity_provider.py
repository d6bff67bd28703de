"""An OpenID Connect provider on loopback: rotating keys, tokens of any kind, sign-in, and a server that can be down."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER = "https://id.meridian-harbour.example/staff"
AUDIENCE = "context-engine"
NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)


@lru_cache
def private_key(kid: str, algorithm: str = "ES256") -> Any:
    """Return the private key of an id, the same each time in this process."""
    if algorithm.startswith(("RS", "PS")):
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return ec.generate_private_key({"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1()}.get(algorithm, ec.SECP521R1()))


def jwk(kid: str, algorithm: str = "ES256", **more: Any) -> dict[str, Any]:
    """Return the public key of an id as a provider publishes it; a field given as None is left out."""
    kind = RSAAlgorithm if algorithm[0] in "RP" else OKPAlgorithm if algorithm == "EdDSA" else ECAlgorithm
    public = json.loads(kind.to_jwk(private_key(kid, algorithm).public_key()))
    row = {**public, "kid": kid, "use": "sig", "alg": algorithm, **more}
    row.pop("key_ops", None) if "key_ops" not in more else None
    return {key: value for key, value in row.items() if value is not None}


def claims(now: datetime = NOW, **more: Any) -> dict[str, Any]:
    """Return the claims of a good access token; one given as None is left out."""
    seconds = int(now.timestamp())
    usual = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "u-4711",
        "nbf": seconds,
        "iat": seconds,
        "exp": seconds + 300,
        "jti": "t-1",
        "roles": ["analyst"],
    }
    return {key: value for key, value in {**usual, **more}.items() if value is not None}


def access_token(
    kid: str = "k1",
    algorithm: str = "ES256",
    *,
    header: Mapping[str, Any] | None = None,
    now: datetime = NOW,
    **more: Any,
) -> str:
    """Return a token that the provider signed; `more` are claims."""
    head = {"kid": kid, "typ": "at+jwt", **(header or {})}
    body = json.dumps(claims(now, **more)).encode()
    return jwt.api_jws.encode(body, private_key(kid, algorithm), algorithm, headers=head)


def unsigned(header: Mapping[str, Any], body: Mapping[str, Any], signature: bytes = b"") -> str:
    """Return a token with any header, and any signature or none."""
    parts = [json.dumps(header).encode(), json.dumps(body).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


class IdentityProvider:
    """Publishes keys and signs people in until it is left.

    Attributes:
        document: what it publishes.
        down: it answers 503.
        asked: how many times it was asked for keys.
        codes: code of a sign-in -> its challenge and redirect URI; each is good once.
        claims: of the access tokens that it gives for a code.
    """

    def __init__(self) -> None:
        self.document: Any = {"keys": [jwk("k1")]}
        self.down = False
        self.asked = 0
        self.codes: dict[str, tuple[str, str]] = {}
        self.claims: dict[str, Any] = {}
        handler = type("Handler", (_Handler,), {"provider": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.jwks = f"http://127.0.0.1:{self._server.server_address[1]}/realms/staff/keys?v=1"
        self.token_url = f"http://127.0.0.1:{self._server.server_address[1]}/realms/staff/token"

    def authorize(self, address: str) -> dict[str, str]:
        """Let a person sign in at an address; return the parameters that the browser is sent back with."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        code = f"code-{len(self.codes)}"
        self.codes[code] = (asked["code_challenge"], asked["redirect_uri"])
        return {"code": code, "state": asked["state"], "iss": ISSUER}

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    provider: IdentityProvider

    def do_POST(self) -> None:
        form = {name: values[0] for name, values in parse_qs(self._body().decode()).items()}
        challenge, redirect_uri = self.provider.codes.pop(form.get("code", ""), ("", ""))
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        proved = base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == challenge
        known = self.headers["Authorization"] == f"Basic {base64.b64encode(b'pages:s3cret').decode()}"
        good = proved and known and redirect_uri == form["redirect_uri"] and not self.provider.down
        token = access_token(now=datetime.now(UTC), **self.provider.claims)
        body = json.dumps({"access_token": token} if good else {"error": "invalid_grant"}).encode()
        self.send_response(200 if good else 400)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"]))

    def do_GET(self) -> None:
        self.provider.asked += 1
        found = self.path == "/realms/staff/keys?v=1"
        body = json.dumps(self.provider.document).encode()
        self.send_response(503 if self.provider.down else 200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass
