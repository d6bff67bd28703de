"""The endpoint `/retrieval`: an External Knowledge API, so that Dify's own Knowledge Retrieval node uses the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import plugin_runtime
from dify_plugin import Endpoint
from werkzeug import Request, Response

from context_engine.apps.dify.backend import answer_retrieval


class RetrievalEndpoint(Endpoint):
    """Answers Dify's retrieval requests."""

    def _invoke(self, r: Request, values: Mapping[str, Any], settings: Mapping[str, Any]) -> Response:
        header = r.headers.get("Authorization")
        answer = answer_retrieval(settings, header, r.get_data(), plugin_runtime.ENGINES.use)
        return Response(answer.encoded(), status=answer.status, content_type="application/json")
