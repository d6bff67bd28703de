"""Write docs/reference/ and the commands that shells complete, or say which of the files are out of date.

python .ci/reference.py            writes
python .ci/reference.py --check    writes nothing; exit code 1 where a page is out of date
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from context_engine import errors
from context_engine.adapters.sources.dify import DifySettings
from context_engine.adapters.sources.neo4j import Neo4jSettings
from context_engine.adapters.sources.opensearch import OpenSearchSettings
from context_engine.adapters.sources.postgres import PostgresSettings
from context_engine.apps.cli import main as command_line
from context_engine.apps.cli.completion import command_tree
from context_engine.apps.server.problems import TYPE_PREFIX, kinds
from context_engine.core.models import GROUPS, DomainSpec, NoticeCode, Settings
from context_engine.settings.access_file import AccessFile

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "reference"
COMMANDS = "../../context_engine/apps/cli/commands.json"
Schema = Mapping[str, Any]


def pages() -> dict[str, str]:
    """Return every generated page by its file name."""
    return {
        "settings.md": settings_page(),
        "manifests.md": manifest_page(),
        "access.md": access_page(),
        "result.md": result_page(),
        "notices.md": notices_page(),
        "errors.md": errors_page(),
        "problems.md": problems_page(),
        "cli.md": "\n".join(cli_page()),
        COMMANDS: json.dumps(command_tree(command_line), indent=1) + "\n",
    }


_GROUPS = {
    "search": "Set for one search (`search --set KEY=VALUE`, a call, a persona), a domain, or all.",
    "index": "How documents are cut and indexed: a change takes effect with the next ingestion. A domain may set them.",
    "limits": "Of the deployment; a domain may set them.",
    "models": "Opened with the engine: one set for all searches, from files, variables or the pipeline config.",
    "answers": "Of the deployment; a domain may set them, and a request may only be stricter.",
    "cost": "Of the deployment; a domain may set `cost_limit_request`, `cost_limit_job` and `cost_limit_domain_day`.",
    "privacy": "Of the deployment, off unless set; a domain may set `mask_contexts` and `mask_stored_queries`. The key "
    "of the pseudonyms is no setting: `CONTEXT_ENGINE_PRIVACY_KEY`.",
    "audit": "Of the deployment; a domain may set `audit_query` and `audit_retention_days`. Where the ledger is and "
    "what it is signed with are no settings: `CONTEXT_ENGINE_AUDIT_LEDGER`, `CONTEXT_ENGINE_AUDIT_KEY`.",
    "telemetry": "Of the deployment, off unless set. Where spans are sent is no setting: the variables `OTEL_*` of "
    "OpenTelemetry, such as `OTEL_EXPORTER_OTLP_ENDPOINT`.",
    "events": "Of the deployment. See [events](../guides/events.md). The key that signs events for a web hook is no "
    "setting: `CONTEXT_ENGINE_WEBHOOK_KEY`.",
    "quality": "Of the deployment. See [quality over time](../guides/quality.md).",
    "jobs": "Of the deployment. See [jobs](../guides/jobs.md).",
    "cache": "Of the deployment. `cache_ttl_s` and `cache_unversioned_ttl_s` say which answers are kept, and for how "
    "long. The address and the key of a cache that processes share are no settings: `CONTEXT_ENGINE_CACHE_URL`, "
    "`CONTEXT_ENGINE_CACHE_KEY`.",
    "server": "Of the service that `context-engine serve` and `context-engine mcp` run. The token of the environment "
    "is no setting: `CONTEXT_ENGINE_API_TOKEN`.",
}


def settings_page() -> str:
    """Return the keys of `rag-pipeline.json`, by group."""
    intro = (
        "The keys of `config/rag-pipeline.json`, flat or nested under the name of their group. Each has a variable "
        "`CONTEXT_ENGINE_<KEY>` too. `context-engine config show` says which value is in force and where it comes from."
    )
    parts = []
    for name, group in GROUPS.items():
        schema = group.model_json_schema()
        parts.append(f"## {name}\n\n{_GROUPS[name]}\n\n{_table(schema, schema.get('$defs', {}))}")
    boosts = _tables("", {"$defs": Settings.model_json_schema()["$defs"]})
    return _page("Settings", intro, *parts, *boosts)


def manifest_page() -> str:
    """Return the keys of a manifest."""
    intro = (
        "A manifest is one YAML file a domain: what knowledge exists, how authoritative it is and where it is found."
    )
    dify = _tables("Settings of a Dify source", DifySettings.model_json_schema())
    postgres = _tables("Settings of a source in PostgreSQL", PostgresSettings.model_json_schema())
    opensearch = _tables("Settings of a source in OpenSearch", OpenSearchSettings.model_json_schema())
    neo4j = _tables("Settings of a source in Neo4j", Neo4jSettings.model_json_schema())
    domain = _tables("Domain", DomainSpec.model_json_schema())
    return _page("Manifests", intro, *dict.fromkeys([*domain, *dify, *postgres, *opensearch, *neo4j]))


def access_page() -> str:
    """Return the keys of `config/access.yaml`."""
    intro = (
        "`config/access.yaml` says which users, Dify apps, tokens and claims are which principal; the rules that admit "
        "them stand in the manifests. See [who may see what](../guides/access.md)."
    )
    return _page("Principals", intro, *_tables("Access file", AccessFile.model_json_schema()))


def result_page() -> str:
    """Return the fields of a search's result."""
    schema = json.loads((ROOT / "config/schemas/search-result-v1.1.json").read_text("utf-8"))
    return _page(
        "Search result",
        "What `search --json` writes, as a JSON Schema in `config/schemas`.",
        *_tables("Result", schema),
    )


def _page(title: str, intro: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", intro, *parts]) + "\n"


def _tables(title: str, schema: Schema) -> Iterator[str]:
    """One table for the schema itself and one for each of its definitions that has properties."""
    definitions = schema.get("$defs", {})
    if schema.get("properties"):
        yield (f"## {title}\n\n" if title else "") + _table(schema, definitions)
    for name, one in sorted(definitions.items()):
        if one.get("properties"):
            yield (
                f"## {name}\n\n"
                + (f"{_sentence(one)}\n\n" if one.get("description") else "")
                + _table(one, definitions)
            )
        elif one.get("enum"):
            yield f"## {name}\n\n{_sentence(one)}\n\n" + ", ".join(f"`{value}`" for value in one["enum"])


def _table(schema: Schema, definitions: Mapping[str, Schema]) -> str:
    rows = ["| Key | Type | Default | Meaning |", "|---|---|---|---|"]
    for key, one in schema["properties"].items():
        default = "required" if key in schema.get("required", ()) else _default(one)
        rows.append(f"| `{key}` | {_type(one, definitions)} | {default} | {_cell(one.get('description', ''))} |")
    return "\n".join(rows)


def _default(one: Schema) -> str:
    return f"`{json.dumps(one['default'], ensure_ascii=False)}`" if "default" in one else ""


def _type(one: Schema, definitions: Mapping[str, Schema]) -> str:
    if "anyOf" in one:
        return " or ".join(dict.fromkeys(_type(part, definitions) for part in one["anyOf"]))
    if "$ref" in one:
        name = one["$ref"].rpartition("/")[2]
        held = definitions[name]
        return f"[{name}](#{name.lower()})" if "properties" in held or "enum" in held else _type(held, definitions)
    if "enum" in one:
        return ", ".join(f"`{value}`" for value in one["enum"])
    if "const" in one:
        return f"`{one['const']}`"
    kind = one.get("type", "any")
    name = " or ".join(kind) if isinstance(kind, list) else kind
    if name == "array":
        return f"list of {_type(one.get('items', {}), definitions)}"
    return f"{name}{_bounds(one)}"


def _bounds(one: Schema) -> str:
    least, over = one.get("minimum"), one.get("exclusiveMinimum")
    most = one.get("maximum")
    if least is None and over is None and most is None:
        return ""
    return f", {f'> {over:g}' if over is not None else f'{least:g}' if least is not None else ''}" + (
        f" to {most:g}" if most is not None else " or more" if over is None else ""
    )


def _sentence(one: Schema) -> str:
    return str(one.get("description", "")).split("\n\n")[0].replace("\n", " ")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def errors_page() -> str:
    """Return every error with its code."""
    rows = ["| Code | Class | Meaning |", "|---|---|---|"]
    for name in sorted(errors.__all__, key=lambda name: getattr(getattr(errors, name), "code", "")):
        kind = getattr(errors, name)
        if inspect.isclass(kind) and issubclass(kind, errors.ContextEngineError):
            meaning = (inspect.getdoc(kind) or "").split("\n\n")[0]
            rows.append(f"| `{kind.code}` | `{name}` | {_cell(meaning)} |")
    tree = (errors.__doc__ or "").partition("\n\n")[2].rstrip()
    intro = (
        "`code` is stable; a message may be reworded. Errors of a source appear in the result and do not end a search."
    )
    return _page("Errors", intro, f"```text\n{tree}\n```", "\n".join(rows))


def problems_page() -> str:
    """Return every kind of problem that the HTTP service answers with."""
    intro = (
        "The HTTP service tells every error as `application/problem+json` (RFC 9457): `type`, `title`, `status`, "
        "`detail`, `instance` (the id of the request), and beside them `code`, `mend` and, where fields were wrong, "
        f"`errors` with `pointer`, `detail` and `mend`. The type is `{TYPE_PREFIX}CODE`; it and the status do not "
        "change, a sentence may. `/retrieval` answers in the form of Dify's External Knowledge API instead. Where "
        "`detail` is the operator's alone, the caller gets the id of the request and the log has the reason under it."
    )
    rows = ["| Code | Status | Meaning | Mend | Detail |", "|---|---|---|---|---|"]
    for one in kinds():
        detail = "shown" if one.shown else "in the log"
        rows.append(f"| `{one.code}` | {one.status} | {_cell(one.meaning)} | {_cell(one.mend)} | {detail} |")
    return _page("Problems", intro, "\n".join(rows))


def notices_page() -> str:
    """Return every code of a notice."""
    intro = (
        "A notice says what a reader should know of an answer, a configuration or a file. Programs decide by its "
        "`code`, which keeps its meaning; the `message` is a sentence for people and may be reworded at any time. "
        "`subject` is what the notice is about (a source, a setting, a file, a domain); `detail` holds the values in "
        "the message by name, as far as they are known.\n\n`search --json` writes the notices of a search as "
        "`notices`, and their messages as `warnings`, in the same order."
    )
    rows = ["| Code | Meaning | Detail |", "|---|---|---|"]
    for code in sorted(NoticeCode):
        rows.append(f"| `{code}` | {_cell(code.__doc__ or '')} | {', '.join(f'`{name}`' for name in code.fields)} |")
    return _page("Notices", intro, "\n".join(rows))


def cli_page() -> Iterator[str]:
    """Yield the lines of the page on the command line."""
    yield "# Command line\n"
    yield "Every command has `--help`. Commands with `--json` write one JSON document to standard output."
    for path, command in sorted(_commands(command_line, ("context-engine",))):
        context = click.Context(command, info_name=" ".join(path))
        yield f"\n## {' '.join(path[1:])}\n" if path[1:] else "\n## context-engine\n"
        yield f"```text\n{' '.join(command.get_usage(context).split())}\n```\n"
        yield _help(command)
        yield from _parameters(command, context)


def _commands(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name in command.commands:
            yield from _commands(command.commands[name], (*path, name))


def _help(command: click.Command) -> str:
    """The help text; what click is told not to rewrap keeps its lines."""
    paragraphs = (inspect.cleandoc(command.help or "")).split("\n\n")
    kept = (
        f"```text\n{one.removeprefix(chr(8)).strip(chr(10))}\n```" if one.startswith("\b") else one
        for one in paragraphs
    )
    return "\n\n".join(kept)


def _parameters(command: click.Command, context: click.Context) -> Iterator[str]:
    records = [record for one in command.get_params(context) if (record := one.get_help_record(context))]
    if records:
        yield "\n| Option | Meaning |\n|---|---|"
        yield from (f"| `{_cell(name)}` | {_cell(text)} |" for name, text in records)


if __name__ == "__main__":
    outdated = [
        name
        for name, text in pages().items()
        if not (PAGES / name).is_file() or (PAGES / name).read_text("utf-8") != text
    ]
    if "--check" in sys.argv:
        sys.exit(f"out of date, run python .ci/reference.py: {', '.join(outdated)}" if outdated else 0)
    PAGES.mkdir(parents=True, exist_ok=True)
    for page, content in pages().items():
        (PAGES / page).write_text(content, encoding="utf-8")
