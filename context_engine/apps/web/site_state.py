"""State that the pages of one service share: sessions, sign-in, reviews, contradictions, facts about the base."""

from __future__ import annotations

from typing import Final

from fastapi import Request

from context_engine.adapters.identity.code_flow import CodeFlow
from context_engine.apps.server.gate import Headers
from context_engine.apps.server.problems import HttpProblem
from context_engine.apps.web.admin_figures import BaseFacts
from context_engine.apps.web.review.state import ConflictRuns, Reviews
from context_engine.apps.web.sessions import Sessions

_CHANGING: Final = ("POST", "PUT", "PATCH", "DELETE")


class SiteState:
    """The state of the pages, in the app as `app.state.site`.

    Args:
        sessions: the cookies of signed-in people.
        code_flow: sign-in at an identity provider; None: people sign in with a token.
    """

    def __init__(self, sessions: Sessions, code_flow: CodeFlow | None = None) -> None:
        self.sessions, self.code_flow = sessions, code_flow
        self.reviews, self.base, self.conflicts = Reviews(), BaseFacts(), ConflictRuns()

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


def site_of(request: Request) -> SiteState:
    """Return the state of the pages that a request asks."""
    site: SiteState = request.app.state.site
    return site
