"""The style and the script of the pages."""

from __future__ import annotations

import mimetypes
from typing import Final

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from context_engine.apps.web import rendering

STATIC: Final = "/static"
_FILES: Final = frozenset(path.name for path in rendering.STATIC.iterdir() if path.is_file())
_KEPT: Final = "public, max-age=31536000, immutable"
router = APIRouter(include_in_schema=False)


@router.get(f"{STATIC}/{{name}}")
async def static_file(request: Request, name: str) -> Response:
    """Return a file; its address changes with its content, so browsers may keep it."""
    if name not in _FILES:
        raise HTTPException(404)
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    kept = _KEPT if request.query_params.get("v") else "no-cache"
    return Response((rendering.STATIC / name).read_bytes(), media_type=kind, headers={"Cache-Control": kept})
