"""`context-engine tags`: check the provenance tags of saved answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
from rich.text import Text

from context_engine.apps.cli.app import NOT_ANSWERED, with_debug
from context_engine.apps.cli.console import note, print_json, print_line, print_table
from context_engine.apps.cli.options import Moment, with_json
from context_engine.apps.web.inert import clean
from context_engine.core.models import utc_text
from context_engine.core.policy.tag_check import CHECKS, CheckedText, CheckState, check_tags
from context_engine.core.policy.tag_forms import TagReading, read_tagged
from context_engine.errors import InvalidRequest

_MOST_BYTES: Final = 100_000_000
_SIGNS: Final = {
    CheckState.OK: Text("✓", "green"),
    CheckState.FAILED: Text("✗", "bold red"),
    CheckState.NOTED: Text("!", "yellow"),
}
EPILOG: Final = """\b
Examples:
  context-engine search "material change" -d NPA --json > answer.json
  context-engine tags check answer.json
  context-engine tags check node-output.json --at 2025-06-30T12:00:00Z --json
"""


@click.group()
def tags() -> None:
    """Check provenance tags."""


@tags.command(epilog=EPILOG)
@click.argument("file")
@click.option(
    "--at", type=Moment(), metavar="MOMENT", help="Judge freshness at this moment, e.g. 2025-06-30 [default: now]."
)
@with_json
@with_debug
def check(file: str, at: datetime | None, as_json: bool) -> int:
    """Check the tags of a saved answer against its texts, the tiers, the score formula and the time.

    FILE is the output of 'search --json' or '--jsonl', a JSON list of chunks, a _provenance object or a list of them,
    or a workflow node's output; "-" reads stdin. Exit code: 0 all good, 4 a tag fails, 2 unreadable. An expired text
    is reported but does not fail.
    """
    moment = at or datetime.now(UTC).replace(microsecond=0)
    try:
        reading = read_tagged(_parsed(_content(file)))
    except InvalidRequest as error:
        raise InvalidRequest(f"{'stdin' if file == '-' else file}: {error}") from None
    checked = check_tags(reading, at=moment)
    if as_json:
        _print_json(checked, reading, moment)
    else:
        _print_table(checked, moment)
    if checked and not reading.settings_known:
        note("The answer does not include its settings: scores were checked with the default weights and boosts.")
    return 0 if all(chunk.ok for chunk in checked) else NOT_ANSWERED


def _content(file: str) -> str:
    try:
        data = sys.stdin.buffer.read(_MOST_BYTES + 1) if file == "-" else _read(Path(file))
    except OSError as error:
        raise InvalidRequest(f"cannot be read: {error.strerror or error}") from None
    if len(data) > _MOST_BYTES:
        raise InvalidRequest(f"is larger than {_MOST_BYTES // 1_000_000} MB")
    try:
        return data.decode(json.detect_encoding(data))  # PowerShell 5 writes UTF-16
    except UnicodeDecodeError:
        raise InvalidRequest("is not UTF-8 text: save it as UTF-8") from None


def _read(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(_MOST_BYTES + 1)


def _parsed(text: str) -> Any:
    """Return the value of JSON, or the list of values of JSON lines."""
    if not text.strip():
        raise InvalidRequest("is empty")
    try:
        return json.loads(text)
    except RecursionError:
        raise InvalidRequest("is nested too deeply") from None
    except ValueError as error:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
        if len(lines) < 2:
            raise InvalidRequest(f"is not JSON: {error}") from None
    return [_parsed_line(number, line) for number, line in lines]


def _parsed_line(number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"is neither JSON nor JSON lines: line {number}: {error}") from None


def _print_json(checked: Sequence[CheckedText], reading: TagReading, moment: datetime) -> None:
    report = {
        "ok": all(chunk.ok for chunk in checked),
        "at": utc_text(moment),
        "settings_known": reading.settings_known,
        "relevance_weight": reading.settings.relevance_weight,
        "authority_weight": reading.settings.authority_weight,
        "chunks": [chunk.to_dict() for chunk in checked],
    }
    print_json(report)


def _print_table(checked: Sequence[CheckedText], moment: datetime) -> None:
    if not checked:
        print_line("No chunks: nothing to check.")
        return
    rows = []
    for chunk in checked:
        line = Text(clean(chunk.chunk_id or "?")).append(f"  {clean(chunk.source_id)}", "dim")
        for name, finding in chunk.findings.items():
            if finding.message:
                style = "red" if finding.state is CheckState.FAILED else "yellow"
                line.append(f"\n{name}: {clean(finding.message)}", style)
        rows.append((chunk.number, *(_SIGNS[chunk.findings[name].state] for name in CHECKS), line))
    print_table((">#", *(f"^!{name}" for name in CHECKS), "chunk"), rows)
    print_line()
    failed = sum(not chunk.ok for chunk in checked)
    noted = sum(finding.state is CheckState.NOTED for chunk in checked for finding in chunk.findings.values())
    line = Text(f"{failed} of {len(checked)} fail", "bold red") if failed else Text(f"all {len(checked)} good", "green")
    line.append(f", {noted} to note" if noted else "", "yellow").append(f", at {utc_text(moment)}", "dim")
    print_line(line)
