"""The ASGI app with all routes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import lru_cache, partial
from typing import Any, Final, Protocol

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from context_engine import __version__
from context_engine.apps.server import mcp, metrics, quality
from context_engine.apps.server.gate import Gate, Pages, told
from context_engine.apps.server.openapi import DESCRIPTION, openapi_document
from context_engine.apps.server.problems import HttpProblem, ProblemForm, problem_fields
from context_engine.apps.server.routes import answers, dify, health, jobs, rag, records, retrieval
from context_engine.apps.server.service import Service, known_caller, request_id_of
from context_engine.core.models import ServerSettings
from context_engine.errors import ContextEngineError

Beside = Callable[[Service], AbstractAsyncContextManager[None]]

ROUTERS: Final[tuple[APIRouter, ...]] = (
    health.router,
    rag.router,
    answers.router,
    jobs.router,
    records.router,
    retrieval.router,
    dify.router,
    mcp.router,
    metrics.router,
)
FORMS: Final[Mapping[str, ProblemForm]] = {
    **dict.fromkeys(("/retrieval", "//retrieval"), retrieval.problem_form),
    "/v1": answers.chat_problem,
}
"""Problem formats by address prefix, for routes with their own."""

BESIDE: Final[tuple[Beside, ...]] = (mcp.tools, metrics.reporting, quality.watching)
"""Context managers that run for the lifetime of the app."""

_METHODS: Final = ("DELETE", "GET", "PATCH", "POST", "PUT")
_OF_STATUS: Final = {404: "not_found", 405: "method_not_allowed", 413: "body_too_large", 415: "unsupported_media_type"}


class Site(Pages, Protocol):
    """Pages with their routes."""

    @property
    def routers(self) -> Sequence[APIRouter]:
        """The routes of the pages; they are not in the OpenAPI document."""
        ...

    @property
    def forms(self) -> Mapping[str, ProblemForm]:
        """The problem formats of the pages by address prefix."""
        ...


def create_app(service: Service, site: Site | None = None) -> FastAPI:
    """Return the app of a service, for any ASGI server.

    Args:
        site: pages to serve too; None: the API alone.
    """

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for beside in BESIDE:
                await stack.enter_async_context(beside(service))
            yield

    app = FastAPI(
        title="context-engine",
        version=__version__,
        description=DESCRIPTION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.state.service = service
    app.state.site = site
    app.state.forms = forms = {**FORMS, **(site.forms if site else {})}
    for router in (*ROUTERS, *(site.routers if site else ())):
        app.router.routes.extend(router.routes)  # `include_router` would make each anew at the first request
    for kind in (ContextEngineError, HttpProblem, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _refused)
    app.add_middleware(Gate, service=service, forms=forms, pages=site)
    _publish_document(app, service)
    return app


def _publish_document(app: FastAPI, service: Service) -> None:
    """Serve the OpenAPI document: to anybody the limits in force, to the holder of a token the personas too."""
    document = lru_cache(2)(partial(openapi_document, app))

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> Response:
        personas = () if known_caller(request) is None else tuple(service.live.current.setup.resolver.personas)
        return JSONResponse(document(service.settings.group(ServerSettings), personas))


async def _refused(request: Request, error: Exception) -> Response:
    return told(request.app.state.forms, request.scope, _as_ours(request, error), request_id_of(request))


def _as_ours(request: Request, error: Exception) -> Exception:
    if isinstance(error, RequestValidationError):
        fields = problem_fields(error.errors(), _body_model(request), error.body)
        names = list(dict.fromkeys(field.pointer or "the body" for field in fields))
        count = "1 field is" if len(names) == 1 else f"{len(names)} fields are"
        return HttpProblem("invalid_request", f"{count} invalid: {', '.join(names)}", fields=fields)
    if isinstance(error, HTTPException):
        code = _OF_STATUS.get(error.status_code, "http_error")
        headers = error.headers if error.status_code != 405 else _allowed(request) or error.headers
        return HttpProblem(code, _http_detail(request, error), headers=headers)
    return error


def _allowed(request: Request) -> dict[str, str] | None:
    """Return the Allow header of an address; None if its route takes every method and refused this one itself."""
    scopes = {method: {**request.scope, "method": method} for method in _METHODS}
    routes = request.app.routes
    allowed = [
        method for method, scope in scopes.items() if any(route.matches(scope)[0] is Match.FULL for route in routes)
    ]
    return None if len(allowed) == len(_METHODS) else {"Allow": ", ".join(allowed)}


def _http_detail(request: Request, error: HTTPException) -> str:
    if error.status_code == 404:
        return f"there is nothing at {request.scope['path'][:200]}"
    if error.status_code == 405:
        return f"{request.method[:20]} is not allowed at this address"
    return str(error.detail)


def _body_model(request: Request) -> Any:
    """Return the body model of the request's route, or None."""
    body = getattr(request.scope.get("route"), "body_field", None)
    annotation = getattr(getattr(body, "field_info", None), "annotation", None)
    return annotation if hasattr(annotation, "model_fields") else None
