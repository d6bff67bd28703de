"""The pages of a service: their addresses, who may see them, and how their errors look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

from fastapi import APIRouter, Response
from starlette.types import Scope

from context_engine.adapters.identity.code_flow import CodeFlow
from context_engine.apps.server.gate import Headers
from context_engine.apps.server.problems import HttpProblem, Problem, ProblemForm
from context_engine.apps.web import admin_page, ask_page, document_page, judgement_page, search_page, sign_in, static
from context_engine.apps.web.admin_figures import BaseFacts
from context_engine.apps.web.rendering import Page, html_response, rendered_page
from context_engine.apps.web.review import pages as review_pages
from context_engine.apps.web.review.state import Reviews
from context_engine.apps.web.sessions import Sessions

ROUTERS: Final[tuple[APIRouter, ...]] = (
    static.router,
    sign_in.router,
    ask_page.router,
    search_page.router,
    document_page.router,
    judgement_page.router,
    review_pages.router,
    admin_page.router,
)
PAGES: Final = ("/", "/searches", "/answers", "/documents", "/suggest", "/judgements", "/review", "/admin")
"""Address prefixes of pages for people who are signed in; "/" is itself alone."""

_OPEN: Final = (sign_in.SIGN_IN, sign_in.SIGN_OUT, static.STATIC)
_CHANGING: Final = ("POST", "PUT", "PATCH", "DELETE")


class WebSite:
    """The pages of a service; a `Site` of `create_app`.

    Args:
        sessions: the cookies of signed-in people.
        code_flow: sign-in at an identity provider; None: people sign in with a token.
    """

    routers: Sequence[APIRouter] = ROUTERS

    def __init__(self, sessions: Sessions, code_flow: CodeFlow | None = None) -> None:
        self.sessions, self.code_flow = sessions, code_flow
        self.reviews, self.base = Reviews(), BaseFacts()
        self.forms: Mapping[str, ProblemForm] = dict.fromkeys((*PAGES, *_OPEN), _problem_page)

    def covers(self, path: str) -> bool:
        """Return whether the address is a page for a caller who is signed in."""
        return path == "/" or any(path == page or path.startswith(f"{page}/") for page in PAGES[1:])

    def authorization(self, headers: Headers) -> str | None:
        """Return the Authorization field of the caller's session; None without one."""
        return self.sessions.authorization(headers)

    def check_origin(self, method: str, headers: Headers) -> None:
        """Check that a request that changes something comes from a page of this service.

        Raises:
            HttpProblem: it comes from elsewhere.
        """
        if method not in _CHANGING:
            return
        site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
        own = origin is not None and origin.partition(b"://")[2] == headers.get(b"host")
        if site not in (b"same-origin", b"none") and not (site is None and (origin is None or own)):
            raise HttpProblem("cross_site", "the request comes from a page of another site: open the page itself")


def _problem_page(problem: Problem, headers: Mapping[str, str], scope: Scope) -> Response:
    """Return a problem as a page; who is not signed in is sent to do so, and comes back afterwards."""
    if problem.status == 401 and scope["method"] == "GET":
        query = scope["query_string"].decode("latin-1")
        wanted = quote(scope["path"] + (f"?{query}" if query else ""), safe="")
        return html_response("", 303, {"Location": f"{sign_in.SIGN_IN}?next={wanted}"})
    page = Page("problem.html", {"problem": problem, "title": problem.title}, problem.status)
    caller = scope.get("state", {}).get("caller")
    return html_response(rendered_page(page, caller=caller), problem.status, headers)
