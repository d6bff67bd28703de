"""What opens the service of a configuration: its start, its reload, and what it refuses to start with."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from context_engine.core.engine import SystemClock
from context_engine.core.models import NOBODY
from context_engine.errors import ConfigError, MissingExtra, NotAuthenticated, TokensUnchecked
from context_engine.settings.principals import token_hash
from context_engine.settings.token_store import TokenStore
from context_engine.wiring.callers import Callers, is_loopback, open_authenticator, openings, unreachable_keys
from context_engine.wiring.check import check
from context_engine.wiring.setup import Setup, load_setup

NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)
API = "T0ken-of-the-environment-0123456789"
OF_FILE = "ce_0123456789_" + "f" * 43


class Bank:
    """A folder with a configuration, and the authenticators that were opened over it."""

    def __init__(self, folder: Path, identity: Any) -> None:
        self.folder, self.identity, self.opened = folder, identity, list[Callers]()
        (folder / "manifests").mkdir()
        (folder / "config").mkdir()

    def setup(self, access: str | None = None, **env: str) -> Setup:
        file = self.folder / "config/access.yaml"
        file.unlink(missing_ok=True)
        if access is not None:
            file.write_text(f"version: 1\n{access}", "utf-8")
        return load_setup(env={"HOME": str(self.folder), **env}, cwd=self.folder)

    def open(self, setup: Setup, *, no_auth: bool = False, host: str = "0.0.0.0") -> Callers:
        found = open_authenticator(setup, self.folder / "data", no_auth=no_auth, host=host, clock=self)
        self.opened.append(found)
        return found

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return time.monotonic()

    @property
    def store(self) -> TokenStore:
        return TokenStore(self.folder / "data")


@pytest.fixture
def bank(tmp_path: Path, identity: Any) -> Iterator[Bank]:
    bank = Bank(tmp_path, identity)
    yield bank
    for one in bank.opened:
        one.close()


def opens(callers: Callers, token: str) -> str | None:
    try:
        return callers.authenticate(f"Bearer {token}").principal.id
    except NotAuthenticated:
        return None


def until(condition: Callable[[], bool]) -> bool:
    for _ in range(1000):
        if condition():
            return True
        time.sleep(0.01)
    return False


def oidc(provider: Any, identity: Any, jwks: str | None = None) -> str:
    return (
        "claims: {roles: roles}\n"
        f"oidc: {{issuer: '{identity.ISSUER}', audience: {identity.AUDIENCE}, algorithms: ES256, min_refresh_s: 1, "
        f"jwks: '{jwks or provider.jwks}'}}\n"
    )


class TestStart:
    def test_without_any_token_there_is_none(self, bank: Bank) -> None:
        with pytest.raises(ConfigError):
            bank.open(bank.setup())
        with pytest.raises(ConfigError):
            bank.open(bank.setup("principals: {desk: {os_users: a.tan}}\n"), host="127.0.0.1")

    def test_tokens_that_are_all_over_are_none(self, bank: Bank) -> None:
        made = bank.store.add("x", "api", now=NOW - timedelta(days=2), expires=NOW)
        bank.store.revoke(bank.store.add("y", "api", now=NOW).id, now=NOW)
        digest = token_hash(OF_FILE)
        access = f"principals: {{desk: {{tokens: [{{sha256: {digest}, expires: 2026-03-02T10:00:00Z}}]}}}}\n"
        with pytest.raises(ConfigError, match="2 tokens are expired"):
            bank.open(bank.setup(access))
        callers = bank.open(bank.setup(access, CONTEXT_ENGINE_API_TOKEN=API))
        assert [opens(callers, one) for one in (API, OF_FILE, made.text)] == ["api", None, None]

    def test_one_that_is_too_short_is_refused(self, bank: Bank) -> None:
        bank.store.add("x", "api", now=NOW)
        with pytest.raises(ConfigError, match="at least 32"):
            bank.open(bank.setup(CONTEXT_ENGINE_API_TOKEN="x" * 31))

    def test_every_kind_opens(self, bank: Bank) -> None:
        access = f"principals: {{desk: {{tokens: [{{sha256: {token_hash(OF_FILE)}}}]}}}}\n"
        callers = bank.open(bank.setup(access, CONTEXT_ENGINE_API_TOKEN=f" {API}\n"))
        made = bank.store.add("x", "desk", now=NOW)  # while it runs
        assert [opens(callers, one) for one in (API, OF_FILE, made.text)] == ["api", "desk", "desk"]
        bank.store.revoke(made.id, now=NOW)
        assert opens(callers, made.text) is None and callers.problems() == ()


class TestNoAuthentication:
    @pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost", "LOCALHOST"])
    def test_on_loopback_everybody_is_let_in(self, bank: Bank, host: str) -> None:
        found = bank.open(bank.setup(), no_auth=True, host=host).authenticate(None)
        assert found.principal == NOBODY and found.operator

    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.0.0.1", "bank.example", "128.0.0.1", "localhost.evil"])
    def test_elsewhere_nobody_is(self, bank: Bank, host: str) -> None:
        assert not is_loopback(host)
        with pytest.raises(ConfigError):
            bank.open(bank.setup(), no_auth=True, host=host)

    def test_nobody_is_an_operator_where_a_file_says_who_is(self, bank: Bank) -> None:
        setup = bank.setup("principals: {desk: {os_users: a.tan}}\n")
        assert not bank.open(setup, no_auth=True, host="::1").authenticate(None).operator

    def test_with_a_token_it_is_two_wishes(self, bank: Bank, provider: Any, identity: Any) -> None:
        access = f"principals: {{desk: {{tokens: [{{sha256: {token_hash(OF_FILE)}}}]}}}}\n"
        wishes = [bank.setup(CONTEXT_ENGINE_API_TOKEN=API), bank.setup(access), bank.setup(oidc(provider, identity))]
        for setup in wishes:
            with pytest.raises(ConfigError):
                bank.open(setup, no_auth=True, host="127.0.0.1")
        bank.store.add("x", "api", now=NOW)
        with pytest.raises(ConfigError):
            bank.open(bank.setup(), no_auth=True, host="127.0.0.1")


class TestRenewal:
    def test_another_configuration_counts_from_then_on(self, bank: Bank) -> None:
        access = f"principals: {{desk: {{tokens: [{{sha256: {token_hash(OF_FILE)}}}]}}}}\n"
        callers = bank.open(bank.setup(access))
        callers.renew(bank.setup("principals: {}\n", CONTEXT_ENGINE_API_TOKEN=API))
        assert [opens(callers, one) for one in (API, OF_FILE)] == ["api", None]

    def test_one_that_cannot_be_used_is_refused_and_the_old_one_stays(self, bank: Bank) -> None:
        callers = bank.open(bank.setup(CONTEXT_ENGINE_API_TOKEN=API))
        for setup in (bank.setup(), bank.setup(CONTEXT_ENGINE_API_TOKEN="short")):
            with pytest.raises(ConfigError):
                callers.renew(setup)
            assert opens(callers, API) == "api"


class TestAProvider:
    @pytest.mark.slow
    def test_keys_rotate_while_it_runs(self, bank: Bank, provider: Any, identity: Any) -> None:
        callers = bank.open(bank.setup(oidc(provider, identity)))
        assert until(lambda: callers.problems() == ())
        old, new = identity.access_token("k1", sub="a.tan"), identity.access_token("k2", sub="b.iyer")
        assert (opens(callers, old), opens(callers, new)) == ("a.tan", None)
        provider.document = {"keys": [identity.jwk("k2")]}
        assert until(lambda: opens(callers, new) == "b.iyer")
        assert opens(callers, old) is None
        provider.down = True
        assert opens(callers, new) == "b.iyer"

    @pytest.mark.slow
    def test_without_keys_the_service_is_not_ready_and_other_tokens_open(
        self, bank: Bank, provider: Any, identity: Any
    ) -> None:
        provider.down = True
        callers = bank.open(bank.setup(oidc(provider, identity), CONTEXT_ENGINE_API_TOKEN=API))
        assert until(lambda: provider.asked > 0)
        assert len(callers.problems()) == 1
        assert opens(callers, API) == "api"
        with pytest.raises(TokensUnchecked):
            opens(callers, identity.access_token())
        provider.down = False
        assert until(lambda: callers.problems() == ())

    def test_a_renewal_keeps_the_keys_and_takes_the_claims_as_they_are_now(
        self, bank: Bank, provider: Any, identity: Any
    ) -> None:
        access = oidc(provider, identity)
        callers = bank.open(bank.setup(access))
        assert until(lambda: callers.problems() == ())
        token = identity.access_token(sub="a.tan", groups=["desk"])
        assert callers.authenticate(f"Bearer {token}").principal.groups == frozenset()
        provider.down = True
        callers.renew(bank.setup(access.replace("roles: roles", "groups: groups")))
        assert callers.authenticate(f"Bearer {token}").principal.groups == {"desk"}
        callers.renew(bank.setup("principals: {}\n", CONTEXT_ENGINE_API_TOKEN=API))
        assert opens(callers, token) is None

    def test_the_keys_may_be_behind_a_connection(self, bank: Bank, provider: Any, identity: Any) -> None:
        provider.document = {"keys": [identity.jwk("k1")]}
        url = provider.jwks.partition("?")[0]
        (bank.folder / "config/connections.yaml").write_text(f"staff-id: {{base_url: '{url}'}}\n", "utf-8")
        setup = bank.setup(oidc(provider, identity, "staff-id"))
        callers = bank.open(setup)
        assert until(lambda: "404" in "".join(callers.problems()))  # this provider wants ?v=1
        assert "404" in (unreachable_keys(setup) or "")
        with pytest.raises(ConfigError, match="unknown connection"):
            bank.open(bank.setup(oidc(provider, identity, "staff-idd")))

    def test_without_the_extra_the_way_to_install_it_is_said(
        self, bank: Bank, provider: Any, identity: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        setup = bank.setup(oidc(provider, identity), CONTEXT_ENGINE_API_TOKEN=API)
        for name in [name for name in sys.modules if name.startswith("context_engine.adapters.identity.")]:
            monkeypatch.delitem(sys.modules, name)
        for name in ("jwt", "jwt.algorithms", "jwt.exceptions"):
            monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(MissingExtra, match=r"\[server\]"):
            bank.open(setup)
        assert opens(bank.open(bank.setup(CONTEXT_ENGINE_API_TOKEN=API)), API) == "api"

    def test_a_doctor_asks_for_the_keys(self, bank: Bank, provider: Any, identity: Any) -> None:
        setup = bank.setup(oidc(provider, identity))
        assert unreachable_keys(setup) is None and unreachable_keys(bank.setup()) is None
        provider.down = True
        assert "503" in (unreachable_keys(setup) or "")


def test_what_opens_it_is_counted(bank: Bank, provider: Any, identity: Any) -> None:
    digest, store = token_hash(OF_FILE), bank.store
    tokens = f"principals: {{desk: {{tokens: [{{sha256: {digest}}}]}}}}\n"
    store.add("a", "api", now=NOW)
    store.add("b", "api", now=NOW - timedelta(days=1), expires=NOW)
    store.revoke(store.add("c", "api", now=NOW).id, now=NOW)
    found = openings(
        bank.setup(tokens + oidc(provider, identity), CONTEXT_ENGINE_API_TOKEN=API), store.path.parent, NOW
    )
    assert found == (True, 1, 1, 1, identity.ISSUER)


def test_a_check_names_what_the_service_would_not_start_with(bank: Bank, provider: Any, identity: Any) -> None:
    env = {"HOME": str(bank.folder), "CONTEXT_ENGINE_API_TOKEN": "short"}
    paths = bank.setup(oidc(provider, identity, "nowhere")).config.paths
    found = {(one.file, one.key) for one in check(paths, env=env).problems}
    assert {(None, "CONTEXT_ENGINE_API_TOKEN"), ("config/access.yaml", "oidc.jwks")} <= found


def test_the_usual_clock_is_the_systems(bank: Bank) -> None:
    bank.store.add("x", "api", now=SystemClock().now())
    with pytest.raises(NotAuthenticated):
        open_authenticator(bank.setup(), bank.folder / "data", no_auth=False, host="::").authenticate(None)
