"""Write dataset ids into a manifest or a stage file; everything else in the file stays as written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from context_engine.errors import ConfigError

_OF_A_STAGE: Final = frozenset({"connections", "dataset_ids"})
_STAGE_IDS: Final = re.compile(r"^dataset_ids:[ \t]*(?:#.*)?\n(?=([ \t]+)\S)?", re.MULTILINE)


def with_dataset_ids(path: Path, ids: Mapping[str, str]) -> str:
    """Return the text of a file with the dataset id of each source.

    A file with `sources` is a manifest: each source that it describes gets `dataset_ids`. Any other is a stage file
    (`manifests/stages/NAME.yaml`), which may be new.

    Args:
        ids: source id -> dataset id; sources that already have ids in the file are left as they are.

    Raises:
        ConfigError: the file cannot be read, is of another kind, or the ids have no place in it.
    """
    try:
        text = path.read_text("utf-8-sig") if path.exists() else ""
        content = yaml.safe_load(text) or {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot be added to: {error}", file=str(path)) from None
    if not isinstance(content, dict) or not ("sources" in content or content.keys() <= _OF_A_STAGE):
        raise ConfigError("is neither a manifest nor a stage file: name one with --write-ids", file=str(path))
    text = text if not text or text.endswith("\n") else f"{text}\n"
    written, wanted = (_in_manifest if "sources" in content else _in_stage)(text, content, ids)
    if yaml.safe_load(written) != wanted:
        raise ConfigError(
            f"the ids cannot be added to it: write them by hand ({_shown(ids)})", file=str(path), key="dataset_ids"
        )
    return written


def _in_manifest(text: str, content: Mapping[str, Any], ids: Mapping[str, str]) -> tuple[str, Any]:
    """Return the text with the ids, and the content that it should have."""
    rows = content["sources"] if isinstance(content["sources"], list) else []
    wanted = []
    for row in rows:
        lacks_ids = isinstance(row, dict) and not row.get("dataset_ids")
        dataset_id = ids.get(str(row.get("id"))) if lacks_ids else None
        if dataset_id:
            text = _below_id(text, row["id"], dataset_id)
            row = {**row, "dataset_ids": [dataset_id]}
        wanted.append(row)
    return text, {**content, "sources": wanted}


def _below_id(text: str, source_id: str, dataset_id: str) -> str:
    """Return the text of a manifest with a line below the id of a source; unchanged if there is no line for the id."""
    line = re.compile(rf"^([ ]*(?:-[ ]+)?)id:[ ]*([\"']?){re.escape(source_id)}\2[ ]*(?:#.*)?\n", re.MULTILINE)
    match = line.search(text)
    if match is None:
        return text
    return f"{text[: match.end()]}{' ' * len(match[1])}dataset_ids: [{dataset_id}]\n{text[match.end() :]}"


def _in_stage(text: str, content: Mapping[str, Any], ids: Mapping[str, str]) -> tuple[str, Any]:
    """Return the text with the ids, and the content that it should have."""
    known = content.get("dataset_ids") or {}
    new = {source_id: dataset_id for source_id, dataset_id in ids.items() if source_id not in known}
    head = _STAGE_IDS.search(text)
    margin = (head and head[1]) or "  "
    lines = "".join(f'{margin}{source_id}: ["{dataset_id}"]\n' for source_id, dataset_id in new.items())
    if head is not None:
        text = text[: head.end()] + lines + text[head.end() :]
    elif lines:
        text += f"dataset_ids:\n{lines}"
    if not new:
        return text, content
    return text, {**content, "dataset_ids": {**known, **{name: [value] for name, value in new.items()}}}


def _shown(ids: Mapping[str, str]) -> str:
    return ", ".join(f"{source_id}: {dataset_id}" for source_id, dataset_id in ids.items())
