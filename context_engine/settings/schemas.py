"""JSON Schemas of every file an operator writes, made from the models.

`python -m context_engine.settings.schemas ROOT` writes them to ROOT/config/schemas and ROOT/manifests/schemas.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, get_args

from context_engine.core.chunking.strategy import LEAST_SIZE, MOST_SIZE, Method
from context_engine.core.models import (
    GROUPS,
    DomainSettings,
    DomainSpec,
    IngestSettings,
    SearchSettings,
    Settings,
    SettingsGroup,
)
from context_engine.settings.access_file import AccessFile
from context_engine.settings.connections import Connection
from context_engine.settings.registry import LITERAL_KEYS
from context_engine.settings.resolver import PERSONA_KEYS

Schema = dict[str, Any]
_VARIABLE: Final[Schema] = {"type": "string", "pattern": r"\$\{", "description": "A value out of a variable."}
_NO_VARIABLE: Final[Schema] = {"not": {"pattern": r"(^|[^$])\$\{"}}
"""Pattern of a public text, which takes no variable; `$${` is a literal `${`."""
_COMMENTS: Final[Schema] = {r"^(//|\$schema$)": {"description": "A comment; not read."}}


def schemas() -> Mapping[str, Schema]:
    """Return each schema by its path below the root of a configuration."""
    return {
        "config/schemas/rag-pipeline.json": _commented(_file("Pipeline settings", _pipeline())),
        "config/schemas/chunking.json": _commented(_file("Chunking table: document type to strategy", _table())),
        "config/schemas/authority.json": _commented(_file("Weights of the final score", _authority())),
        "config/schemas/personas.json": _commented(
            _file("Personas: name to settings", {"additionalProperties": _persona()})
        ),
        "config/schemas/ingest.json": _commented(_file("How files are read, and what one may cost", _ingest())),
        "config/schemas/connections.json": _file("Connections: name to server", _connections(required=True)),
        "config/schemas/access.json": _file("Principals: who asks, and what each may", _access()),
        "manifests/schemas/manifest-v1.json": _file("Manifest of one domain, version 1", _manifest()),
        "manifests/schemas/stage-v1.json": _file("Overlay of a stage, version 1", _stage()),
    }


def write_schemas(root: Path) -> list[Path]:
    """Write every schema below `root` and return the paths."""
    written: list[Path] = []
    for name, schema in schemas().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(schema, indent=2, ensure_ascii=False) + "\n", "utf-8")
        written.append(path)
    return written


def _file(title: str, schema: Schema) -> Schema:
    body = {key: value for key, value in schema.items() if key not in ("title", "description")}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, "type": "object", **body}


def _commented(value: Any) -> Any:
    """Return a schema whose objects accept comment keys, as `read_json` does."""
    if isinstance(value, list):
        return [_commented(item) for item in value]
    if not isinstance(value, dict):
        return value
    out = {key: _commented(child) for key, child in value.items()}
    return {**out, "patternProperties": _COMMENTS} if "additionalProperties" in out else out


def _pipeline() -> Schema:
    """Return the schema of `rag-pipeline.json`: every setting by its key, and the groups, which hold the same keys."""
    schema = _settings(Settings)
    groups = {name: _group(group) for name, group in GROUPS.items()}
    strategies = {"type": "object", **_table()}
    return {**schema, "properties": {**schema["properties"], **groups, "chunking_strategies": strategies}}


def _group(model: type[SettingsGroup]) -> Schema:
    keys: Schema = {key: {"$ref": f"#/properties/{key}"} for key in model.model_fields}
    return {"type": "object", "description": inspect.getdoc(model), "additionalProperties": False, "properties": keys}


def _settings(model: type[SettingsGroup]) -> Schema:
    schema = model.model_json_schema()
    if "$defs" in schema:
        boosts = schema.pop("$defs")["AuthorityBoosts"]
        schema["properties"]["authority_boosts"] = {**boosts, "properties": _variables(boosts["properties"])}
    return {**schema, "properties": _variables(schema["properties"])}


def _variables(properties: Mapping[str, Schema]) -> dict[str, Schema]:
    """Return properties that also accept a `${...}` instead of a number, flag or choice."""
    return {name: _or_variable(schema) for name, schema in properties.items()}


def _or_variable(schema: Schema) -> Schema:
    if schema.get("type") not in ("integer", "number", "boolean") and "enum" not in schema and "anyOf" not in schema:
        return schema
    outside = ("description", "default")
    outer: Schema = {key: schema[key] for key in schema if key in outside}
    inner: Schema = {key: schema[key] for key in schema if key not in (*outside, "title")}
    return {**outer, "anyOf": [*inner.get("anyOf", [inner]), _VARIABLE]}


def _table() -> Schema:
    size: Schema = {"type": "integer", "maximum": MOST_SIZE}
    row = {
        "method": {"enum": list(get_args(Method)), "description": "How the document is cut."},
        "chunk_size": {**size, "minimum": LEAST_SIZE, "description": "Most tokens of a chunk."},
        "overlap": {
            **size,
            "minimum": 0,
            "description": "Tokens a chunk repeats from the one before; below chunk_size.",
        },
        "metadata_fields": {"type": "array", "items": {"type": "string"}, "description": "Fields every chunk carries."},
    }
    return {"additionalProperties": {"type": "object", "additionalProperties": False, "properties": _variables(row)}}


def _authority() -> Schema:
    own = _settings(SearchSettings)["properties"]
    tiers = {str(tier): own["authority_boosts"]["properties"][f"tier_{tier}"] for tier in range(1, 6)}
    boosts = {"type": "object", "additionalProperties": False, "properties": tiers, "description": "Boost by tier."}
    weights = {key: own[key] for key in ("relevance_weight", "authority_weight")}
    return {"additionalProperties": False, "properties": {**weights, "boosts": boosts}}


def _ingest() -> Schema:
    schema = IngestSettings.model_json_schema()
    return {**schema, "properties": _variables(schema["properties"])}


def _persona() -> Schema:
    own = _settings(SearchSettings)["properties"]
    words = {word: own[key] for word, key in PERSONA_KEYS.items()}
    description: Schema = {"type": "string", "description": "What the persona is for, in a sentence."}
    properties = {"description": description, **words, **own}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _connections(*, required: bool) -> Schema:
    schema = Connection.model_json_schema()
    body = {"type": "object", "additionalProperties": False, "properties": _variables(schema["properties"])}
    return {"additionalProperties": {**body, **({"required": schema["required"]} if required else {})}}


def _access() -> Schema:
    schema = AccessFile.model_json_schema()
    for form in schema["$defs"].values():
        form.update(_names_or_name(form))
    return schema


def _names_or_name(form: Schema) -> Schema:
    """Return the schema of access rules: lists may be one text, classifications may be in capitals."""
    if "enum" in form:
        return {**form, "enum": [*form["enum"], *map(str.upper, form["enum"])]}
    return {**form, "properties": {name: _one_or_several(schema) for name, schema in form["properties"].items()}}


def _one_or_several(schema: Schema) -> Schema:
    """Return a schema of a list of texts that also accepts a single text."""
    outside = ("description", "default", "title")
    inner = {key: schema[key] for key in schema if key not in outside}
    if inner.get("items", {}).get("type") != "string":
        return schema
    return {**{key: schema[key] for key in schema if key in outside}, "anyOf": [inner["items"], inner]}


def _manifest() -> Schema:
    schema = DomainSpec.model_json_schema()
    source, rule = schema["$defs"]["SourceSpec"], schema["$defs"]["DocumentRule"]
    tier = {"type": "integer", "minimum": 1, "maximum": 5, "description": source["properties"]["tier"]["description"]}
    source["properties"] = {**_variables(source["properties"]), "tier": tier}
    rule["properties"] = _variables(rule["properties"])
    for name in ("AccessRule", "Classification"):
        schema["$defs"][name].update(_names_or_name(schema["$defs"][name]))
    for part in (schema, source, rule):
        part["properties"] = {
            name: _written_out(schema) if name in LITERAL_KEYS else schema
            for name, schema in part["properties"].items()
        }
    schema["properties"]["settings"] = {
        **_settings(DomainSettings),
        "title": "Settings",
        "description": "Settings for this domain.",
    }
    return schema


def _written_out(schema: Any) -> Any:
    """Return a schema whose texts contain no `${...}`."""
    if isinstance(schema, list):
        return [_written_out(option) for option in schema if option != _VARIABLE]
    if not isinstance(schema, dict):
        return schema
    below = {key: _written_out(schema[key]) for key in ("anyOf", "items", "additionalProperties") if key in schema}
    return {**schema, **below, **(_NO_VARIABLE if schema.get("type") == "string" else {})}


def _stage() -> Schema:
    ids = {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}}
    connections = {"type": "object", **_connections(required=False)}
    return {"additionalProperties": False, "properties": {"connections": connections, "dataset_ids": ids}}


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd())
