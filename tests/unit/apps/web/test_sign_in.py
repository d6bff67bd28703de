"""Signing in: with a token, with a code, at an identity provider; and requests of other sites."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi import Request, Response
from fastapi.testclient import TestClient

from context_engine.adapters.identity.code_flow import CodeFlow
from context_engine.apps.server.app import create_app
from context_engine.apps.web.sessions import Sessions
from context_engine.apps.web.site import WebSite
from context_engine.core.engine import SystemClock
from context_engine.core.models import Authenticated, Principal
from context_engine.errors import ConfigError, NotAuthenticated
from context_engine.settings.access_file import Oidc
from context_engine.settings.connections import Connection
from tests.unit.apps.server.small_service import small_service

CALLBACK = "https://search.bank.example/sign-in/callback"


def client_of(site: WebSite, service: Any = None) -> TestClient:
    """A browser at a service whose page `/review` says who is signed in, and whose `/judgements` takes forms."""
    app = create_app(service or small_service(), site)

    @app.get("/admin/who")
    async def who(request: Request) -> Response:
        return Response(request.scope["state"]["caller"].principal.id)

    @app.post("/answers/judged")
    async def judged() -> Response:
        return Response("kept")

    return TestClient(app, base_url="https://testserver", follow_redirects=False)


@pytest.fixture
def site() -> WebSite:
    return WebSite(Sessions())


@pytest.fixture
def client(site: WebSite) -> TestClient:
    return client_of(site)


def sign_in(client: TestClient, token: str = "clerk", wanted: str = "/") -> Any:
    return client.post("/sign-in", data={"token": token, "next": wanted})


def test_who_is_not_signed_in_is_led_there_and_back(client: TestClient) -> None:
    answer = client.get("/admin/who?domain=ORM")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?next=%2Fadmin%2Fwho%3Fdomain%3DORM")
    form = client.get(answer.headers["location"])
    assert form.status_code == 200 and 'value="/admin/who?domain=ORM"' in form.text
    signed = sign_in(client, wanted="/admin/who?domain=ORM")
    assert signed.headers["refresh"] == "0; url=/admin/who?domain=ORM"
    assert client.get("/admin/who").text == "clerk"


def test_a_token_that_opens_nothing_is_refused_on_the_form(client: TestClient) -> None:
    answer = sign_in(client, "nobody")
    assert answer.status_code == 401 and "opens nothing" in answer.text and "set-cookie" not in answer.headers


@pytest.mark.wording
def test_a_session_that_ended_is_told(client: TestClient) -> None:
    assert "signed out" not in client.get("/sign-in").text
    sign_in(client)
    assert "signed out" not in client.get("/sign-in").text
    again = client_of(WebSite(Sessions()))  # started again: another key
    again.cookies = client.cookies
    answer = again.get("/admin/who")
    assert answer.status_code == 303 and "You are signed out" in again.get(answer.headers["location"]).text


def test_a_code_signs_in_once(site: WebSite, client: TestClient) -> None:
    link = f"/sign-in?code={site.sessions.code_for('clerk')}"
    assert client.get(link).status_code == 200 and client.get("/admin/who").text == "clerk"
    assert client.get(link).status_code == 401


def test_signing_out_ends_the_session(client: TestClient) -> None:
    sign_in(client)
    assert client.post("/sign-out").status_code == 303
    assert client.get("/admin/who").status_code == 303


@pytest.mark.parametrize(
    "elsewhere",
    ["https://evil.example/", "//evil.example", "/\\evil.example", "\\\\evil", "javascript:alert(1)", "/\r\nx", ""],
)
def test_no_link_leads_elsewhere_after_the_sign_in(client: TestClient, elsewhere: str) -> None:
    assert sign_in(client, wanted=elsewhere).headers["refresh"] == "0; url=/"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Origin": "https://testserver"}, 200),
        ({}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Origin": "https://testserver"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_forms_of_other_sites_change_nothing(client: TestClient, headers: dict[str, str], status: int) -> None:
    sign_in(client)
    answer = client.post("/answers/judged", data={"a": "b"}, headers=headers)
    assert answer.status_code == status
    assert client.post("/sign-in", data={"token": "clerk"}, headers=headers).status_code == status


def test_every_page_keeps_others_out(client: TestClient) -> None:
    for answer in (client.get("/sign-in"), client.get("/admin/who"), client.get("/documents/none")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert answer.headers["cache-control"] == "no-store" and answer.headers["x-content-type-options"] == "nosniff"


def test_an_error_is_a_page_at_pages_and_json_at_the_api(client: TestClient) -> None:
    sign_in(client)
    page = client.get("/documents/<script>")
    assert page.status_code == 404 and page.headers["content-type"].startswith("text/html")
    assert "&lt;script&gt;" in page.text and "<script>" not in page.text.replace("<script src", "")
    assert client.get("/api/none", headers={"Authorization": "Bearer clerk"}).json()["code"] == "not_found"
    assert client.get("/api/none").status_code == 401  # a session opens pages, not the API


def test_files_are_kept_by_browsers_as_long_as_they_are_the_same(client: TestClient) -> None:
    link = client.get("/sign-in").text.partition('href="/static/')[2].partition('"')[0]
    assert link.startswith("style.css?v=")
    assert "immutable" in client.get(f"/static/{link}").headers["cache-control"]
    assert client.get("/static/style.css").headers["cache-control"] == "no-cache"
    for name in ("none.css", "..%2Fsite.py", "templates"):
        assert client.get(f"/static/{name}").status_code == 404


class AtProvider:
    """A browser at a service whose people sign in at a provider."""

    def __init__(self, provider: Any) -> None:
        connection = Connection(
            base_url="https://id.meridian-harbour.example",
            token_url=provider.token_url,
            client_id="pages",
            client_secret="s3cret",
        )
        self.provider, service = provider, small_service()
        service.authenticator = SimpleNamespace(authenticate=self._known, problems=tuple, close=lambda: None)
        self.flow = CodeFlow(_oidc(), lambda: connection, CALLBACK, SystemClock())
        self.client = client_of(WebSite(Sessions(), self.flow), service)
        self.opens = True

    def _known(self, authorization: str | None) -> Any:
        if not authorization or not self.opens or authorization.count(".") != 2:
            raise NotAuthenticated("no")
        return Authenticated(principal=Principal(id="u-4711"))

    def begin(self) -> str:
        address = self.client.get("/sign-in/start?next=/admin/who").headers["location"]
        assert isinstance(address, str)
        return address

    def back(self, **parameters: str) -> Any:
        return self.client.get("/sign-in/callback", params=parameters)


@pytest.fixture
def there(provider: Any) -> Iterator[AtProvider]:
    yield AtProvider(provider)


def test_a_person_signs_in_at_the_provider(there: AtProvider) -> None:
    address = there.begin()
    query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    assert (query["client_id"], query["scope"], query["redirect_uri"]) == ("pages", "openid", CALLBACK)
    answer = there.back(**there.provider.authorize(address))
    assert answer.status_code == 200 and answer.headers["refresh"] == "0; url=/admin/who"
    assert there.client.get("/admin/who").text == "u-4711"


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"state": "another"}, 502, "not to a sign-in that this browser began"),
        ({"iss": "https://evil.example"}, 502, "another identity provider"),
        ({"code": "stolen"}, 502, "did not accept the sign-in"),
    ],
)
@pytest.mark.wording
def test_an_answer_to_another_sign_in_opens_nothing(there: AtProvider, change: Any, status: int, words: str) -> None:
    answer = there.back(**{**there.provider.authorize(there.begin()), **change})
    assert answer.status_code == status and words in answer.text and "s3cret" not in answer.text
    assert there.client.get("/admin/who").status_code == 303


def test_who_refuses_at_the_provider_is_not_signed_in(there: AtProvider) -> None:
    state = there.provider.authorize(there.begin())["state"]
    assert "access_denied" in there.back(error="access_denied", state=state).text


def test_a_person_without_rights_is_told_so(there: AtProvider) -> None:
    there.opens = False
    assert there.back(**there.provider.authorize(there.begin())).status_code == 403


def test_a_callback_that_nobody_began_is_refused(there: AtProvider) -> None:
    assert there.back(code="c", state="s").status_code == 400


def test_a_provider_that_is_down_is_told(there: AtProvider) -> None:
    answer = there.provider.authorize(there.begin())
    there.provider.down = True
    assert there.back(**answer).status_code == 502


def test_a_connection_without_a_token_endpoint_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match="needs token_url"):
        CodeFlow(_oidc(), lambda: Connection(base_url="https://id.bank.example"), CALLBACK, SystemClock())


def _oidc() -> Oidc:
    there = {"authorize": "https://id.meridian-harbour.example/authorize", "connection": "login"}
    return Oidc.model_validate(
        {
            "issuer": "https://id.meridian-harbour.example/staff",
            "audience": "a",
            "jwks": "keys",
            "algorithms": ["ES256"],
            "sign_in": there,
        }
    )


@pytest.mark.parametrize(("accept", "kind"), [("text/html,*/*;q=0.8", "text/html"), ("*/*", "application/problem")])
def test_an_unknown_address_is_a_page_to_a_browser_and_a_problem_to_a_program(
    client: TestClient, accept: str, kind: str
) -> None:
    for path in ("/ask", "/api/v1/none"):
        answer = client.get(path, headers={"Accept": accept, "Authorization": "Bearer clerk"})
        assert answer.status_code == 404 and answer.headers["content-type"].startswith(kind), path
