"""The pages of a service: their addresses, who may see them, and how their errors look."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException
from starlette.types import Scope

from context_engine.adapters.identity.code_flow import CodeFlow
from context_engine.apps.server.problems import Problem, ProblemForm, problem_answer
from context_engine.apps.web import admin_page, ask_page, document_page, job_pages, sign_in, steps
from context_engine.apps.web.rendering import STATIC, Page, html_response, rendered_page
from context_engine.apps.web.review import conflict_pages
from context_engine.apps.web.review import pages as review_pages
from context_engine.apps.web.sessions import Sessions
from context_engine.apps.web.site_state import SiteState

_FILES: Final = frozenset(path.name for path in STATIC.iterdir() if path.is_file())
_KEPT: Final = "public, max-age=31536000, immutable"
_router = APIRouter(include_in_schema=False)


@_router.get("/static/{name}")
async def static_file(request: Request, name: str) -> Response:
    """Return the style or the script; its address changes with its content, so browsers may keep it."""
    if name not in _FILES:
        raise HTTPException(404)
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    kept = _KEPT if request.query_params.get("v") else "no-cache"
    return Response((STATIC / name).read_bytes(), media_type=kind, headers={"Cache-Control": kept})


ROUTERS: Final[tuple[APIRouter, ...]] = (
    _router,
    sign_in.router,
    ask_page.router,
    steps.router,
    document_page.router,
    job_pages.router,
    conflict_pages.router,
    review_pages.router,
    admin_page.router,
)
PAGES: Final = ("/", "/searches", "/answers", "/documents", "/suggest", "/judgements", "/jobs", "/review", "/admin")
"""Address prefixes of pages for people who are signed in; "/" is itself alone."""

_OPEN: Final = (sign_in.SIGN_IN, sign_in.SIGN_OUT, "/static")


class WebSite(SiteState):
    """The pages of a service; a `Site` of `create_app`. Its arguments are those of `SiteState`."""

    routers: Sequence[APIRouter] = ROUTERS

    def __init__(self, sessions: Sessions, code_flow: CodeFlow | None = None) -> None:
        super().__init__(sessions, code_flow)
        pages = dict.fromkeys((*PAGES, *_OPEN), _problem_page)
        self.forms: Mapping[str, ProblemForm] = {**pages, "": _unknown_address}  # "" comes last: it is above all

    def covers(self, path: str) -> bool:
        """Return whether the address is a page for a caller who is signed in."""
        return path == "/" or any(path == page or path.startswith(f"{page}/") for page in PAGES[1:])


def _unknown_address(problem: Problem, headers: Mapping[str, str], scope: Scope) -> Response:
    """Return a problem as a page where a browser asked for an address that does not exist, else as problem+json."""
    asked_by_browser = b"text/html" in dict(scope["headers"]).get(b"accept", b"")
    form = _problem_page if problem.code == "not_found" and asked_by_browser else problem_answer
    return form(problem, headers, scope)


def _problem_page(problem: Problem, headers: Mapping[str, str], scope: Scope) -> Response:
    """Return a problem as a page; who is not signed in is sent to do so, and comes back afterwards."""
    if problem.status == 401 and scope["method"] == "GET":
        query = scope["query_string"].decode("latin-1")
        wanted = quote(scope["path"] + (f"?{query}" if query else ""), safe="")
        return html_response("", 303, {"Location": f"{sign_in.SIGN_IN}?next={wanted}"})
    page = Page("problem.html", {"problem": problem, "title": problem.title}, problem.status)
    caller = scope.get("state", {}).get("caller")
    return html_response(rendered_page(page, caller=caller), problem.status, headers)
