"""Who a request comes from: the header, and the tokens that a deployment knows itself."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.identity.authenticator import NoAuthentication, TokenAuthenticator, bearer_token
from context_engine.adapters.identity.held_tokens import ApiToken, FileTokens, StoredTokens
from context_engine.core.models import ANYBODY, Authenticated
from context_engine.errors import NotAuthenticated, TokensUnchecked
from context_engine.settings.access_file import AccessFile
from context_engine.settings.principals import NO_PRINCIPALS, Principals, token_hash
from context_engine.settings.token_store import TokenStore
from context_engine.testing.fakes import FixedClock

NOW = datetime(2026, 11, 23, 2, tzinfo=UTC)
API = "Harbour-token, in any form: ß 1!"
OF_FILE = "ce_0123456789_" + "f" * 43
ENTRIES = {
    "desk": {"roles": ["analyst"], "tokens": [{"sha256": token_hash(OF_FILE), "expires": NOW + timedelta(hours=1)}]},
    "dify": {"roles": ["reader"], "gateway": True},
    "platform": {"operator": True},
}


@pytest.fixture
def store(tmp_path: Path) -> TokenStore:
    return TokenStore(tmp_path)


@pytest.fixture
def ask(store: TokenStore) -> Callable[..., Authenticated | None]:
    """(token, now, principals) -> who calls; None where it is refused."""

    def ask(token: str, now: datetime = NOW, entries: Any = ENTRIES) -> Authenticated | None:
        form = {"version": 1, "principals": entries}
        who = NO_PRINCIPALS if entries is None else Principals(AccessFile.model_validate(form))
        kinds = [ApiToken(API, who), StoredTokens(store, who), FileTokens(who)]
        header = f"Bearer {token}".encode().decode("latin-1")  # as a server reads it
        try:
            return TokenAuthenticator(kinds, FixedClock(now)).authenticate(header)
        except NotAuthenticated:
            return None

    return ask


class TestTheHeader:
    @pytest.mark.parametrize(
        "header", ["Bearer abc", "bearer abc", "BEARER   abc", " Bearer abc ", "Bearer\tabc".replace("\t", " ")]
    )
    def test_the_scheme_has_no_case_and_blanks_around_do_not_count(self, header: str) -> None:
        assert bearer_token(header) == b"abc"

    @pytest.mark.parametrize(
        "header", [None, "", "Bearer", "Bearer ", "abc", "Basic abc", "Bearerabc", "Token Bearer abc", "Bearer " * 9000]
    )
    def test_any_other_holds_no_token(self, header: str | None) -> None:
        assert bearer_token(header) is None

    def test_the_bytes_of_the_header_are_the_token(self) -> None:
        assert bearer_token("Bearer à ß".encode().decode("latin-1")) == "à ß".encode()
        assert bearer_token("Bearer 令牌") == "令牌".encode()


class TestTokens:
    def test_the_token_of_the_environment_is_the_principal_api(self, ask: Any) -> None:
        found = ask(API)
        assert (found.principal.id, found.principal.roles, found.operator, found.gateway) == (
            "api",
            frozenset(),
            False,
            False,
        )

    def test_who_has_it_is_an_operator_where_no_file_says_who_is(self, ask: Any) -> None:
        assert ask(API, entries=None).operator

    def test_an_entry_of_that_name_says_what_it_may(self, ask: Any) -> None:
        found = ask(API, entries={"api": {"roles": ["open"], "operator": True}})
        assert found.principal.roles == {"open"} and found.operator

    def test_a_stored_token_is_its_principal(self, ask: Any, store: TokenStore) -> None:
        made = {name: store.add("x", name, now=NOW) for name in ("api", "dify", "platform")}
        found = {name: ask(one.text) for name, one in made.items()}
        assert {name: (one.principal.id, one.operator, one.gateway) for name, one in found.items()} == {
            "api": ("api", False, False),
            "dify": ("dify", False, True),
            "platform": ("platform", True, False),
        }
        assert {one.token_id for one in found.values()} == {one.id for one in made.values()}

    def test_without_a_file_a_stored_token_makes_no_operator(self, ask: Any, store: TokenStore) -> None:
        found = ask(store.add("x", "api", now=NOW).text, entries=None)
        assert found.principal.id == "api" and not found.operator

    def test_one_of_a_principal_that_is_gone_opens_nothing(self, ask: Any, store: TokenStore) -> None:
        made = store.add("x", "dify", now=NOW)
        assert ask(made.text, entries={"desk": {}}) is None and ask(made.text, entries=None) is None

    def test_a_token_of_the_file_is_its_principal_until_it_expires(self, ask: Any) -> None:
        found = ask(OF_FILE)
        assert (found.principal.id, found.token_id) == ("desk", token_hash(OF_FILE)[:8])
        assert ask(OF_FILE, NOW + timedelta(hours=1)) is None

    @pytest.mark.parametrize("token", [API[:-1], API + "x", API.upper(), token_hash(API), "", "x"])
    def test_nothing_else_opens(self, ask: Any, token: str) -> None:
        assert ask(token) is None

    def test_its_use_is_noted(self, ask: Any, store: TokenStore) -> None:
        made = store.add("x", "api", now=NOW)
        assert store.all()[0].used is None
        ask(made.text)
        for _ in range(500):
            if store.all()[0].used is not None:
                break
            time.sleep(0.01)
        assert store.all()[0].used == NOW

    def test_the_log_names_the_id_and_never_the_token(
        self, ask: Any, store: TokenStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        made = store.add("x", "api", now=NOW, expires=NOW + timedelta(minutes=1))
        assert ask(made.text, NOW + timedelta(minutes=1)) is None
        assert made.id in caplog.text and made.text[14:] not in caplog.text
        ask("s3cret-of-somebody-0123456789012345")
        assert "s3cret" not in caplog.text

    def test_a_store_that_cannot_be_read_neither_opens_nor_refuses_and_is_said(
        self, ask: Any, store: TokenStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        made = store.add("x", "api", now=NOW)
        store.close()
        store.path.write_bytes(b"no database" * 1000)
        with pytest.raises(TokensUnchecked) as told:
            ask(made.text)
        assert str(store.path) not in str(told.value)
        assert ask(API) is not None and ask(OF_FILE) is not None and ask("no token of ours") is None
        assert str(store.path) in caplog.text
        assert len(StoredTokens(store, NO_PRINCIPALS).problems()) == 1


def test_one_message_refuses_whatever_opens_nothing(store: TokenStore) -> None:
    made = store.add("x", "api", now=NOW, expires=NOW + timedelta(minutes=1))
    check = TokenAuthenticator([ApiToken(API, NO_PRINCIPALS), StoredTokens(store, NO_PRINCIPALS)], FixedClock(NOW))
    late = TokenAuthenticator([StoredTokens(store, NO_PRINCIPALS)], FixedClock(NOW + timedelta(days=1)))
    told = set()
    for one, header in [(check, None), (check, "Basic x"), (check, "Bearer x"), (late, f"Bearer {made.text}")]:
        with pytest.raises(NotAuthenticated) as refused:
            one.authenticate(header)
        told.add(str(refused.value))
    assert len(told) == 1


def test_without_authentication_a_token_is_refused() -> None:
    assert NoAuthentication().authenticate(None) == NoAuthentication().authenticate("") == ANYBODY
    with pytest.raises(NotAuthenticated):
        NoAuthentication().authenticate("Bearer x")
