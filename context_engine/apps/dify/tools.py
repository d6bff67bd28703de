"""The plugin's tools over an engine, and the engine that runs in the plugin's own process.

The documents of the domains are also a drive for Dify's knowledge pipelines: buckets are domains, folders are sources.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

from context_engine.apps.dify.answer import ToolOutput, search_answer
from context_engine.apps.dify.answering import AnswerCall, Answering
from context_engine.apps.dify.catalogue import catalogue, refuse_unhealthy
from context_engine.apps.dify.chat_model import AskChat, DifyChat, read_chat_model
from context_engine.apps.dify.external import ExternalAnswer
from context_engine.apps.dify.failure import refuse_incomplete
from context_engine.apps.dify.form import flag_field, read_search_form, text_field
from context_engine.apps.dify.plugin_settings import PluginAudit, PluginSetup, plugin_audit, plugin_recorder
from context_engine.apps.dify.reranking import Ask, rerank_passages
from context_engine.apps.dify.retrieval import EXTERNAL_KNOWLEDGE, Retrieval, search_records
from context_engine.core.engine import SystemClock
from context_engine.core.models import Caller, Principal
from context_engine.core.policy.access import AccessViews
from context_engine.core.text import counted
from context_engine.errors import ConfigError, InvalidRequest
from context_engine.service.deployment import Deployment
from context_engine.service.documents import DocumentKey, document_file, list_documents
from context_engine.wiring.build import build_engine

ToolName = Literal["search", "rerank", "domains", "browse", "download"]
TOOLS: Final[tuple[ToolName, ...]] = get_args(ToolName)
_MOST_FILES: Final = 500
"""Most documents in a folder; the others are in a folder at its end. A list with several parts would lose them: Dify's
main branch of August 2026 reads only the first part when a pipeline takes a whole folder."""
_NOTHING: Final = (
    "no domain may be searched with these credentials: have the operator give the token's principal a role in "
    "access.yaml, or configure a domain"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The tools of a deployment.

    Attributes:
        audit: the audit mode that `domains` reports.
        request_id: of the request to a server, or None.
    """

    deployment: Deployment
    audit: PluginAudit
    request_id: str | None = None

    def call(
        self, tool: ToolName, fields: Mapping[str, Any], caller: Caller, principal: Principal, ask: Ask
    ) -> ToolOutput:
        """Return a tool's output; see `Backend.call`."""
        if tool == "search":
            return self._search(fields, caller, principal)
        if tool == "rerank":
            return self._rerank(fields, caller, principal, ask)
        if tool == "browse":
            return browse(self.deployment, principal, fields)
        if tool == "download":
            return download(self.deployment, principal, fields)
        name, check = text_field(fields, "domain_name"), flag_field(fields, "check_health", True)
        return catalogue(self.deployment, principal, name, check=check, caller=caller, audit=self.audit)

    def _search(self, fields: Mapping[str, Any], caller: Caller, principal: Principal) -> ToolOutput:
        engine = self.deployment.engine
        form = read_search_form(fields, self.deployment.known_to(principal), caller, principal)
        result = engine.search(replace(form.request, request_id=self.request_id))
        if form.fail_if_missing:
            refuse_incomplete(result)
        return search_answer(
            result,
            form=form.form,
            demo=self.deployment.demo,
            notices=form.notices,
            register_required=form.register_required,
            mask=engine.mask,
            read=engine.context,
            tongue=form.tongue,
            question="needs_subject" if form.needs_subject else "complete",
            detail=form.json_detail,
        )

    def _rerank(self, fields: Mapping[str, Any], caller: Caller, principal: Principal, ask: Ask) -> ToolOutput:
        engine = self.deployment.engine
        result, form = rerank_passages(fields, self.deployment, caller, principal, ask, request_id=self.request_id)
        return search_answer(
            result,
            form=form,
            demo=self.deployment.demo,
            notices=flag_field(fields, "notice_passage", True),
            mask=engine.mask,
            read=engine.context,
        )


@dataclass(frozen=True, kw_only=True)
class OpenEngine(Deployment):
    """A backend with an engine in the plugin's process.

    Attributes:
        folder: has the form's values that are needed as files; removed with this object.
    """

    folder: tempfile.TemporaryDirectory[str]

    def call(self, tool: ToolName, fields: Mapping[str, Any], caller: Caller, ask: Ask) -> ToolOutput:
        """Return a tool's output for the principal of the app and the user that Dify names."""
        tools = Tools(deployment=self, audit=plugin_audit(self.setup))
        return tools.call(tool, fields, caller, self.principals.for_dify(caller.app, caller.principal), ask)

    def answer(self, fields: Mapping[str, Any], caller: Caller, ask: AskChat) -> Answering:
        """Yield the text of an answer, then the output, for the principal of the app and the user that Dify names."""
        choice = read_chat_model(fields.get("model"))
        principal = self.principals.for_dify(caller.app, caller.principal)
        call = AnswerCall(deployment=self, fields=fields, caller=caller, principal=principal)
        return call.answered(None if choice is None else DifyChat(choice, ask))

    def check(self) -> None:
        """Try every source once; see `refuse_unhealthy`."""
        refuse_unhealthy(self)

    def retrieve(self, asked: Retrieval, token: str) -> ExternalAnswer:
        """Answer as the principal of the endpoint's access token, which is the only verified identity of a request."""
        principal = self.principals.for_token(token, now=SystemClock().now()) or EXTERNAL_KNOWLEDGE
        return search_records(asked, self, principal)

    def close(self) -> None:
        """Close the engine and remove the folder."""
        super().close()
        self.folder.cleanup()


def open_engine(plugin: PluginSetup) -> OpenEngine:
    """Return an engine over a plugin's configuration.

    Raises:
        ConfigError: a missing adapter or reranker, or required records without a ledger.
    """
    setup = plugin.setup
    recorder = plugin_recorder(setup)
    return OpenEngine(
        setup=setup,
        engine=build_engine(setup, data_dir=plugin.data_dir, recorder=recorder, recorded=recorder is not None),
        views=AccessViews(setup.registry, setup.access),
        data_dir=plugin.data_dir,
        demo=plugin.demo,
        rankings=plugin_recorder(setup, rankings=True),
        folder=plugin.folder,
    )


def browse(deployment: Deployment, principal: Principal, fields: Mapping[str, Any]) -> ToolOutput:
    """Return the domains, the sources of a domain, or documents of a source, in Dify's form of a drive.

    Args:
        fields: `bucket`, a domain; `prefix`, the id of a folder. A folder comes whole, whatever `max_keys` says.

    Raises:
        ConfigError: no domain is configured for this principal.
        InvalidRequest, UnknownDomain, SourceError …: see `list_documents`.
    """
    bucket, prefix = text_field(fields, "bucket"), text_field(fields, "prefix")
    registry = deployment.known_to(principal)
    if bucket is None:
        if not registry.names:
            raise ConfigError(_NOTHING)
        return _output([_listed(name, []) for name in registry.names], counted(len(registry.names), "domain"))
    if prefix is None:
        sources = registry.domain(bucket).sources
        folders = [_entry(source.id, source.title or source.id, 0, "folder") for source in sources]
        return _output([_listed(bucket, folders)], counted(len(folders), "source"))
    source_id, after = _place(prefix)
    page = list_documents(deployment, principal, bucket, source_id, after=after, most=_MOST_FILES)
    files = [_entry(str(file.key), file.name, len(file.content), "file") for file in page.files]
    if page.after is not None:
        files.append(_entry(f"{page.after}/", f"after {page.files[-1].name}", 0, "folder"))
    return _output([_listed(bucket, files)], counted(len(page.files), "document"))


def download(deployment: Deployment, principal: Principal, fields: Mapping[str, Any]) -> ToolOutput:
    """Return a document as a Markdown file.

    Args:
        fields: `bucket`, the domain; `id`, of the document in a list.

    Raises:
        InvalidRequest, UnknownDomain, SourceError …: see `document_file`.
    """
    bucket, key = text_field(fields, "bucket"), text_field(fields, "id")
    if bucket is None or key is None:
        raise InvalidRequest("bucket and id must name a document: choose one in the list")
    file = document_file(deployment, principal, bucket, DocumentKey.read(key))
    named = {"file_name": file.name, "mime_type": "text/markdown"}
    return ToolOutput(text=file.content.decode("utf-8"), json=named, variables={})


def _place(folder: str) -> tuple[str, DocumentKey | None]:
    """Return the source of a folder, and the document after which the folder begins; None: at the first."""
    if "/" not in folder:
        return folder, None
    after = DocumentKey.read(folder.removesuffix("/"))
    return after.source_id, after


def _output(listed: Sequence[Mapping[str, Any]], text: str) -> ToolOutput:
    return ToolOutput(text=text, json={"result": list(listed)}, variables={})


def _listed(bucket: str, files: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"bucket": bucket, "files": list(files), "is_truncated": False, "next_page_parameters": {}}


def _entry(key: str, name: str, size: int, kind: str) -> dict[str, Any]:
    return {"id": key, "name": name, "size": size, "type": kind}
