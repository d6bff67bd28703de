"""Renders pages from templates: everything is escaped, and nothing is loaded from elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from fastapi import Request, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from context_engine.apps.server.service import ANY_TURN, Work, service_of
from context_engine.apps.server.slots import Turn
from context_engine.apps.web.inert import clean
from context_engine.apps.web.result_words import TIERS, marked, passage_html
from context_engine.core.models import Authenticated
from context_engine.core.text import counted
from context_engine.service.deployment import Deployment

STATIC: Final = Path(__file__).with_name("static")
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of every page: it runs and loads only this service's own files, and stands in nobody's frame."""

_HTML: Final = "text/html; charset=utf-8"


class Page(NamedTuple):
    """A page to render.

    Attributes:
        template: its file below `templates`.
        values: what the template reads.
        status: of the HTTP answer.
    """

    template: str
    values: Mapping[str, Any]
    status: int = 200


async def respond(request: Request, work: Work[Page], turn: Turn = ANY_TURN) -> Response:
    """Make a page in a worker thread and return it.

    Args:
        work: gets the deployment and the caller.

    Raises:
        NotAuthenticated, Overloaded: see `Service.call`; and whatever `work` raises.
    """

    def rendered(deployment: Deployment, caller: Authenticated) -> tuple[str, int]:
        page = work(deployment, caller)
        return rendered_page(page, caller=caller, demo=deployment.demo), page.status

    html, status = await service_of(request).call(request, rendered, turn)
    return html_response(html, status)


def html_response(html: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return the HTTP answer with a page."""
    return Response(html, status, {**HEADERS, **(headers or {})}, media_type=_HTML)


def rendered_page(page: Page, *, caller: Authenticated | None, demo: bool = False) -> str:
    """Return the HTML of a page of the service.

    Args:
        caller: who is signed in; None: nobody.
        demo: whether the knowledge is the fictitious bank's; the page then says so.
    """
    return _html(page, caller=caller, demo=demo, standalone=None)


def standalone_page(page: Page, *, demo: bool = False) -> str:
    """Return the HTML of a page as one file that loads and runs nothing."""
    return _html(page, caller=None, demo=demo, standalone=_style())


def asset(name: str) -> str:
    """Return the address of a static file; it changes with the content."""
    return f"/static/{name}?v={_digest(name)}"


@cache
def _digest(name: str) -> str:
    return hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]


@cache
def _style() -> Markup:
    return Markup((STATIC / "style.css").read_text("utf-8"))


def _html(page: Page, **common: Any) -> str:
    return _environment().get_template(page.template).render(page.values, **common)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("context_engine.apps.web"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"asset": asset, "tiers": TIERS}
    made.filters |= {
        "passage": lambda text, query="", quote="": Markup(passage_html(text, query, quote)),
        "marked": lambda text, query="": Markup(marked(clean(text), query)),
        "day": day,
        "moment": lambda time: f"{time:%Y-%m-%d %H:%M} UTC",
        "second": lambda text: f"{text[:10]} {text[11:19]} UTC" if text else "",
        "since_1970": lambda seconds: f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC",
        "address": lambda text: quote(str(text), safe="", errors="replace"),
        "counted": counted,
    }
    return made


def _shown(value: object) -> object:
    """Return what an expression shows: nothing for None, and texts that steer nobody's reading."""
    if value is None:
        return ""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def day(value: date | datetime) -> str:
    """Return a day as people write it, such as 3 March 2026."""
    return f"{value.day} {value:%B %Y}"
