"""The cookie of a session: who can read it, how long it holds, and codes that open one once."""

from __future__ import annotations

import secrets

import pytest

from context_engine.apps.web import sessions as module
from context_engine.apps.web.sessions import Sessions
from context_engine.errors import InvalidRequest

KEY = "a key of the bank, thirty-two characters"


def sent(set_cookie: str) -> dict[bytes, bytes]:
    """The headers of a browser that was given a cookie."""
    return {b"cookie": f"other=1; {set_cookie.partition(';')[0]}".encode()}


def test_a_session_carries_its_token_which_the_cookie_hides() -> None:
    sessions = Sessions(KEY)
    cookie = sessions.cookie("the-token")
    assert "the-token" not in cookie
    assert sessions.authorization(sent(cookie)) == "Bearer the-token"
    assert Sessions(KEY).authorization(sent(cookie)) == "Bearer the-token"  # of another instance with the same key


@pytest.mark.parametrize("other", [None, KEY + "!"])
def test_a_cookie_of_another_key_is_none(other: str | None) -> None:
    assert Sessions(other).authorization(sent(Sessions(KEY).cookie("t"))) is None


@pytest.mark.parametrize(
    "cookie", [b"", b"context_engine_session=", b"context_engine_session=AAAA", b'\xff="; ;=', b"a"]
)
def test_anything_else_is_no_session(cookie: bytes) -> None:
    assert Sessions(KEY).authorization({b"cookie": cookie}) is None
    assert Sessions(KEY).authorization({}) is None


def test_a_sealed_text_that_is_no_token_is_none() -> None:
    sessions = Sessions(KEY)
    sealed = sessions._fernet.encrypt(b"not compressed").decode()
    assert sessions.authorization({b"cookie": f"context_engine_session={sealed}".encode()}) is None


def test_a_session_ends_after_a_working_day(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = Sessions(KEY)
    cookie = sessions.cookie("t")
    monkeypatch.setattr(module, "LIFETIME_S", -1)
    assert sessions.authorization(sent(cookie)) is None


def test_only_https_gives_a_cookie_of_the_host_alone() -> None:
    plain, secure = Sessions(KEY).cookie("t"), Sessions(KEY, secure=True).cookie("t")
    assert plain.startswith("context_engine_session=") and "Secure" not in plain
    assert secure.startswith("__Host-context_engine_session=") and secure.endswith("; Secure")
    for cookie in (plain, secure):
        assert "; Path=/; HttpOnly; SameSite=Strict" in cookie
    assert "Max-Age=0" in Sessions(KEY).ended()


def test_a_token_that_no_cookie_can_hold_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="too many for a browser's cookie"):
        Sessions(KEY).cookie(secrets.token_urlsafe(6000))


def test_a_code_opens_one_session() -> None:
    sessions = Sessions(KEY)
    code = sessions.code_for("t")
    assert (sessions.redeem(code), sessions.redeem(code), sessions.redeem("other")) == ("t", None, None)


def test_a_begun_sign_in_comes_back_from_another_site_but_is_no_session() -> None:
    sessions = Sessions(KEY)
    cookie = sessions.begun_cookie("state")
    assert "SameSite=Lax" in cookie and sessions.begun(sent(cookie)) == "state"
    assert sessions.authorization(sent(cookie)) is None
