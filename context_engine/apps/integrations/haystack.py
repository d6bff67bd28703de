"""A retriever component for Haystack.

pipeline.add_component("retriever", ContextEngineRetriever(config_dir="my-bank", domain="HANDBOOK"))
"""

from __future__ import annotations

from typing import Any, Final

from context_engine.apps.integrations.knowledge import InProcess, Knowledge, Server
from context_engine.apps.integrations.passages import NoPassages, Questions, SourcesMissing, standing
from context_engine.errors import InvalidRequest, MissingExtra
from context_engine.service.contract.rag import RAGPipelineResponse
from context_engine.settings.environment_secrets import API_TOKEN

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.utils import Secret
except ImportError as error:
    raise MissingExtra("the Haystack component", "haystack") from error

__all__ = ["ContextEngineRetriever", "NoPassages", "SourcesMissing"]
_TOKEN: Final = Secret.from_env_var(API_TOKEN, strict=False)


@component
class ContextEngineRetriever:
    """Retrieves the passages of a domain as documents, with their provenance in `meta`.

    Its other outputs are `decision`, `status`, `warnings` and `missing_sources`. They tell why there is no passage, so
    that is no error here unless `empty_allowed` is False.

    Args:
        server_url: asks this server; None: an engine in this process.
        token: of the server; serialised by the name of its variable, never by its value.
        config_dir, stage: of the engine in this process.
        principal: the caller in this process: id, roles, groups and clearance.
        domain, top_k, filters, request, empty_allowed, degraded_allowed, fence_untrusted: as `Questions`.

    Raises:
        ConfigError, InvalidRequest: an argument cannot be used.
    """

    def __init__(
        self,
        *,
        server_url: str | None = None,
        token: Secret | None = _TOKEN,
        config_dir: str | None = None,
        stage: str | None = None,
        principal: dict[str, Any] | None = None,
        domain: str | None = None,
        top_k: int | None = None,
        filters: dict[str, Any] | str | None = None,
        request: dict[str, Any] | None = None,
        empty_allowed: bool = True,
        degraded_allowed: bool = True,
        fence_untrusted: bool = True,
    ) -> None:
        if server_url is not None and any(value is not None for value in (config_dir, stage, principal)):
            raise InvalidRequest("config_dir, stage and principal belong to an engine in this process: omit server_url")
        self.server_url, self.token = server_url, token
        self.config_dir, self.stage, self.principal = config_dir, stage, principal
        self.questions = Questions(
            domain=domain,
            top_k=top_k,
            filters=filters,
            request=request or {},
            empty_allowed=empty_allowed,
            degraded_allowed=degraded_allowed,
            fence_untrusted=fence_untrusted,
        ).checked()
        self.knowledge = self._knowledge()

    def _knowledge(self) -> Knowledge:
        if self.server_url is None:
            return InProcess(self.config_dir, stage=self.stage, principal=self.principal)
        return Server(self.server_url, None if self.token is None else self.token.resolve_value())

    @component.output_types(
        documents=list[Document], decision=str, status=str, warnings=list[str], missing_sources=list[str]
    )
    def run(self, query: str, top_k: int | None = None, filters: dict[str, Any] | str | None = None) -> dict[str, Any]:
        """Return the passages of an answer and what may be concluded from it.

        Args:
            top_k, filters: for this question only.
        """
        return self._output(self.questions.asked(self.knowledge, query, top_k=top_k, filters=filters))

    @component.output_types(
        documents=list[Document], decision=str, status=str, warnings=list[str], missing_sources=list[str]
    )
    async def run_async(
        self, query: str, top_k: int | None = None, filters: dict[str, Any] | str | None = None
    ) -> dict[str, Any]:
        """Run `run` in a worker thread."""
        return self._output(await self.questions.aasked(self.knowledge, query, top_k=top_k, filters=filters))

    def to_dict(self) -> dict[str, Any]:
        """Return the component, without the value of its token."""
        token = None if self.token is None or self.server_url is None else self.token.to_dict()
        data: dict[str, Any] = default_to_dict(
            self,
            server_url=self.server_url,
            token=token,
            config_dir=self.config_dir,
            stage=self.stage,
            principal=self.principal,
            domain=self.questions.domain,
            top_k=self.questions.top_k,
            filters=self.questions.filters,
            request=dict(self.questions.request),
            empty_allowed=self.questions.empty_allowed,
            degraded_allowed=self.questions.degraded_allowed,
            fence_untrusted=self.questions.fence_untrusted,
        )
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ContextEngineRetriever:
        """Return the component of `to_dict`."""
        fields = data["init_parameters"]
        if isinstance(fields.get("token"), dict):
            fields["token"] = Secret.from_dict(fields["token"])
        made: ContextEngineRetriever = default_from_dict(cls, data)
        return made

    def _output(self, answer: RAGPipelineResponse) -> dict[str, Any]:
        documents = [
            Document(id=passage.id, content=passage.text, score=passage.score, meta=passage.metadata)
            for passage in self.questions.passages(answer)
        ]
        facts = standing(answer)
        return {"documents": documents, **{name: facts[name] for name in _TOLD}}


_TOLD: Final = ("decision", "status", "warnings", "missing_sources")
