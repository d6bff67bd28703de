"""The documents of the domains as a drive for Dify's knowledge pipelines: buckets are domains, folders are sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from context_engine.apps.dify.answer import ToolOutput
from context_engine.apps.dify.form import text_field, whole_field
from context_engine.core.models import Principal
from context_engine.core.text import counted
from context_engine.errors import ConfigError, InvalidRequest
from context_engine.service.deployment import Deployment
from context_engine.service.documents import DocumentKey, document_file, list_documents

_USUAL: Final = 20
_MOST: Final = 100
_NOTHING: Final = (
    "no domain may be searched with these credentials: have the operator give the token's principal a role in "
    "access.yaml, or configure a domain"
)


def browse(deployment: Deployment, principal: Principal, fields: Mapping[str, Any]) -> ToolOutput:
    """Return the domains, the sources of a domain, or a part of the documents of a source, in Dify's form of a drive.

    Args:
        fields: `bucket`, a domain; `prefix`, the id of a source; `max_keys`, most documents; `next_page_parameters`,
            those of the part before.

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
    page = list_documents(
        deployment,
        principal,
        bucket,
        prefix,
        after=_after(fields.get("next_page_parameters")),
        most=whole_field(fields, "max_keys", 1, _MOST) or _USUAL,
    )
    files = [_entry(str(file.key), file.name, len(file.content), "file") for file in page.files]
    return _output([_listed(bucket, files, page.after)], counted(len(files), "document"))


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


def _after(parameters: Any) -> DocumentKey | None:
    after = text_field(parameters, "after") if isinstance(parameters, Mapping) else None
    return None if after is None else DocumentKey.read(after)


def _output(listed: Sequence[Mapping[str, Any]], text: str) -> ToolOutput:
    return ToolOutput(text=text, json={"result": list(listed)}, variables={})


def _listed(bucket: str, files: Sequence[Mapping[str, Any]], after: DocumentKey | None = None) -> dict[str, Any]:
    parameters = {} if after is None else {"after": str(after)}
    return {
        "bucket": bucket,
        "files": list(files),
        "is_truncated": after is not None,
        "next_page_parameters": parameters,
    }


def _entry(key: str, name: str, size: int, kind: str) -> dict[str, Any]:
    return {"id": key, "name": name, "size": size, "type": kind}
