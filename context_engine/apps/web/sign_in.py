"""Signing in and out: at an identity provider, with a token, or with a code that the command line shows once."""

from __future__ import annotations

import json
from typing import Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response

from context_engine.apps.server.service import service_of
from context_engine.apps.web.addresses import own_address
from context_engine.apps.web.rendering import Page, html_response, rendered_page
from context_engine.apps.web.site_state import site_of
from context_engine.errors import ContextEngineError, NotAuthenticated, TokensUnchecked
from context_engine.service.deployment import Deployment

SIGN_IN: Final = "/sign-in"
SIGN_OUT: Final = "/sign-out"
_REFUSED: Final = "This token opens nothing. Check that it is whole and has not expired."
_ENDED: Final = (
    "You are signed out: your token has expired or was revoked, or the service was started with another key."
)
_USED: Final = "This link was used before or is too old. Start 'context-engine web' again for a new one."
_NOT_BEGUN: Final = "This browser began no sign-in in the last ten minutes. Begin again."
_NO_RIGHTS: Final = "The identity provider knows you, but its token opens nothing here. Ask an operator for access."
router = APIRouter(include_in_schema=False)


@router.get(SIGN_IN)
async def sign_in_page(request: Request) -> Response:
    """Show the form; a one-time code in the address signs in at once."""
    code, wanted = request.query_params.get("code"), own_address(request.query_params.get("next", "/"))
    if code is None:
        return _form(request, wanted, _ENDED if _has_ended(request) else "")
    token = site_of(request).sessions.redeem(code)
    return _form(request, wanted, _USED, 401) if token is None else _signed_in(request, token, wanted)


@router.post(SIGN_IN)
async def sign_in(request: Request) -> Response:
    """Sign in with the token of the form."""
    _check(request)
    fields = parse_qs((await request.body()).decode("utf-8", "replace"))
    token, wanted = fields.get("token", [""])[0].strip(), own_address(fields.get("next", ["/"])[0])
    try:
        service_of(request).authenticator.authenticate(f"Bearer {token}")
    except NotAuthenticated:
        return _form(request, wanted, _REFUSED, 401)
    except TokensUnchecked as error:
        return _form(request, wanted, str(error), 503)
    return _signed_in(request, token, wanted)


@router.get(f"{SIGN_IN}/start")
async def start(request: Request) -> Response:
    """Send the browser to the identity provider."""
    site = site_of(request)
    if site.code_flow is None:
        return _form(request, "/")
    begun, wanted = site.code_flow.begin(), own_address(request.query_params.get("next", "/"))
    remembered = site.sessions.begun_cookie(json.dumps((begun.state, begun.verifier, wanted)))
    return html_response("", 303, {"Location": begun.address, "Set-Cookie": remembered})


@router.get(f"{SIGN_IN}/callback")
async def callback(request: Request) -> Response:
    """Complete a sign-in whose person the identity provider sent back."""
    flow, remembered = site_of(request).code_flow, site_of(request).sessions.begun(dict(request.headers.raw))
    if flow is None or remembered is None:
        return _form(request, "/", _NOT_BEGUN, 400)
    state, verifier, wanted = json.loads(remembered)

    def work(_: Deployment) -> str:
        return flow.token(state, verifier, request.query_params)

    try:
        token = await service_of(request).run(work)
        service_of(request).authenticator.authenticate(f"Bearer {token}")
    except NotAuthenticated:
        return _form(request, wanted, _NO_RIGHTS, 403)
    except ContextEngineError as error:
        return _form(request, wanted, str(error), 502)
    return _signed_in(request, token, wanted)


@router.post(SIGN_OUT)
async def sign_out(request: Request) -> Response:
    """End the session."""
    _check(request)
    return html_response("", 303, {"Location": SIGN_IN, "Set-Cookie": site_of(request).sessions.ended()})


def _check(request: Request) -> None:
    site_of(request).check_origin(request.method, dict(request.headers.raw))


def _has_ended(request: Request) -> bool:
    """Return whether the browser still sends a session that opens nothing any more."""
    headers, sessions = dict(request.headers.raw), site_of(request).sessions
    if not sessions.is_sent(headers):
        return False
    try:
        service_of(request).authenticator.authenticate(sessions.authorization(headers))
    except (NotAuthenticated, TokensUnchecked):
        return True
    return False


def _signed_in(request: Request, token: str, wanted: str) -> Response:
    """Return a page that loads the next one: a strict cookie is not sent on a redirect from another site."""
    cookie = site_of(request).sessions.cookie(token)
    html = rendered_page(Page("signed_in.html", {"next": wanted}), caller=None)
    return html_response(html, 200, {"Set-Cookie": cookie, "Refresh": f"0; url={wanted}"})


def _form(request: Request, wanted: str, problem: str = "", status: int = 200) -> Response:
    has_provider = site_of(request).code_flow is not None
    page = Page("sign_in.html", {"next": wanted, "problem": problem, "has_provider": has_provider})
    return html_response(rendered_page(page, caller=None), status)
