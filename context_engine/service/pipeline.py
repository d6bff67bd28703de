"""The RAG API as a library: the fields of `POST /api/v1/rag/query`, in one process, with `await` or without.

    async with RAGPipeline() as pipeline:
        response = await pipeline.process(RAGQueryRequest(query="NPA criteria", persona_key="educator"))
        response.context_string.formatted_context

`context_engine.rag.RagPipeline` is another interface to the same engine: functions on chunk dicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from context_engine.core.models import NOBODY, Caller, Principal, principal_from_dict
from context_engine.errors import InvalidRequest
from context_engine.service.contract.rag import RAGPipelineResponse, RAGQueryRequest
from context_engine.service.deployment import Deployment, open_deployment
from context_engine.service.query import answer_query
from context_engine.wiring.setup import load_setup

_CALLER: Final = Caller(app="rag-pipeline")


class RAGPipeline:
    """Answers requests of the RAG API over the configured domains. Thread-safe; a context manager.

    Not `context_engine.rag.RagPipeline`, which takes and returns chunk dicts.

    Args:
        config_dir, stage: the configuration; None: the usual search.
        data_dir: the data folder; None: the default.
        deployment: an open deployment to use instead; its owner closes it.

    Raises:
        ConfigError: an unusable configuration.
    """

    def __init__(
        self,
        config_dir: str | Path | None = None,
        *,
        stage: str | None = None,
        data_dir: str | Path | None = None,
        deployment: Deployment | None = None,
    ) -> None:
        self._owned = deployment is None
        self._deployment = deployment or open_deployment(
            load_setup(config_dir=config_dir, stage=stage), data_dir=None if data_dir is None else Path(data_dir)
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("a RAGPipeline has open sources and cannot be copied: make one in each process")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def process(
        self, request: RAGQueryRequest, *, principal: Principal | Mapping[str, Any] | None = None
    ) -> RAGPipelineResponse:
        """Run `run` in a worker thread; the same answer."""
        import asyncio

        return await asyncio.to_thread(self.run, request, principal=principal)

    def run(
        self, request: RAGQueryRequest, *, principal: Principal | Mapping[str, Any] | None = None
    ) -> RAGPipelineResponse:
        """Return the answer to a request.

        Args:
            principal: the authenticated caller, whose rights decide what is searched: a `Principal`, or a dict of id,
                roles, groups and clearance. None: an anonymous caller.

        Raises:
            InvalidRequest: not a request, or an unusable principal or field. Limits of a server do not apply.
            ContextEngineError: as `answer_query`.
        """
        if not isinstance(request, RAGQueryRequest):
            raise InvalidRequest(
                f'a request is a RAGQueryRequest, got a {type(request).__name__}: RAGQueryRequest(query="...")'
            )
        return answer_query(self._deployment, request, principal=_principal(principal), caller=_CALLER)

    async def aclose(self) -> None:
        """Run `close` in a worker thread; may be called twice."""
        import asyncio

        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Close the sources that were opened; may be called twice."""
        if self._owned:
            self._deployment.close()


def _principal(value: Principal | Mapping[str, Any] | None) -> Principal:
    if value is None or isinstance(value, Principal):
        return value or NOBODY
    return principal_from_dict(value)
