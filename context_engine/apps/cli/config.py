"""`context-engine config` and `context-engine init`: show, check and create a configuration."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import click
from rich.table import Table
from rich.text import Text

from context_engine.apps.cli.app import USAGE
from context_engine.apps.cli.console import note, out, print_json, print_line, print_table, styled, table
from context_engine.apps.cli.context import ConfigLocation, access_in_force, with_location
from context_engine.apps.cli.doctor.checks import audit_summary
from context_engine.apps.cli.options import with_json
from context_engine.apps.web.inert import clean
from context_engine.core.text import counted
from context_engine.errors import ConfigError
from context_engine.service.explaining.words import setting_words
from context_engine.settings.resolver import personas_file

if TYPE_CHECKING:
    from context_engine.settings import ConfigPaths
    from context_engine.wiring.report import ShownSetting
    from context_engine.wiring.setup import Setup


_GROUP_HEADINGS: Final = {
    "search": "each search may have its own: a call, a persona and a domain may set them",
    "index": "how documents are cut: a change takes effect when they are ingested again",
    "limits": "hold for all searches: a domain may set them, a call may not",
    "models": "one set for all searches of an engine: only files, variables and the pipeline config set them",
    "answers": "how questions are answered: a domain may set them, a call may only be stricter, or choose a workflow",
    "cost": "what chat models cost and may cost: a domain may set limits for a request, a job and a day, no call may",
    "privacy": "what is masked: a domain may set mask_contexts and mask_stored_queries, no call may",
    "audit": "how searches are recorded: a domain may set audit_query and audit_retention_days, no call may",
    "telemetry": "what traces show: files and variables set them",
    "events": "where events go, such as changed answers: files and variables set it",
    "quality": "how quality is watched and settings are compared over time: files and variables set it",
    "jobs": "where jobs are kept: files and variables set it",
    "cache": "what the cache of answers may use in this process: files and variables set it",
    "server": "the service over HTTP and MCP: files and variables set them, read when it starts and on SIGHUP",
    "ingest": "how files are read: ingest.json and variables set them",
}


@click.group()
def config() -> None:
    """Show and check the configuration."""


@config.command("show", epilog="\b\nExamples:\n  context-engine config show\n  context-engine config show --domain NPA")
@click.option("--domain", "-d", metavar="NAME", help="With this domain's own settings.")
@click.option("--persona", metavar="NAME", help="With this persona's settings.")
@with_json
@with_location
def show_command(location: ConfigLocation, domain: str | None, persona: str | None, as_json: bool) -> None:
    """Show every setting in force, its origin, and where the configuration was found."""
    from context_engine.wiring.audit_report import audit_in_force
    from context_engine.wiring.report import show as settings_in_force
    from context_engine.wiring.scope import scopes_in_force

    setup = location.load()
    paths = setup.config.paths
    data = _data_dir(setup, location)
    shown = settings_in_force(setup, domain=domain, persona=persona, data_dir=data)
    calibrated = {} if domain else scopes_in_force(setup, data)
    scope = {name: threshold for name, threshold in calibrated.items() if threshold.origin}
    audit = audit_in_force(setup, data)
    connections = {name: setup.config.connections.shown(name) for name in setup.config.connections.names}
    if as_json:
        folders = {"config_dir": paths.config_dir, "manifest_dir": paths.manifest_dir, "data_dir": data}
        published = {
            "found": {"origin": paths.origin, **{key: folder and str(folder) for key, folder in folders.items()}},
            "settings": {
                each.key: {key: getattr(each, key) for key in ("value", "origin", "default")} for each in shown
            },
            **({"scope": {name: threshold._asdict() for name, threshold in scope.items()}} if scope else {}),
            "connections": connections,
            "access": access_in_force(setup),
            "audit": audit.to_dict(),
        }
        print_json(json.dumps(published, default=str))
        return
    print_line(_where(paths))
    if data:
        print_line(styled(("data: ", "dim"), str(data)))
    print_line(styled(("access: ", "dim"), _access(setup)))
    print_line(styled(("audit: ", "dim"), audit_summary(audit)))
    print_line()
    print_line(_settings(shown, out().width))
    if scope:
        print_line()
        print_line("scope_threshold auto is", "bold")
        _print_pairs({name: f"{threshold.value:.2f} ({threshold.origin})" for name, threshold in scope.items()})
    for name, values in connections.items():
        print_line()
        print_line(f"connection {name}", "bold")
        _print_pairs(values)


@config.command("check", epilog="\b\nExample:\n  context-engine config check --stage prod && deploy")
@with_json
@with_location
def check_command(location: ConfigLocation, as_json: bool) -> int:
    """Read everything and name all that is wrong; exit code 2 if anything is."""
    from context_engine.settings import find_config
    from context_engine.wiring.check import check

    paths = find_config(location.config_dir, env=os.environ, cwd=Path.cwd())
    report = check(paths, env=os.environ, stage=location.stage)
    if as_json:
        problems = [problem.to_dict() for problem in report.problems]
        warnings = [notice.message for notice in report.notices]
        facts = {"ok": report.ok, "files": report.files, "domains": report.domains, "unusable": report.unusable}
        print_json({**facts, "problems": problems, "warnings": warnings})
    else:
        print_line(_where(paths))
        for file in report.files:
            bad = any(problem.file == file for problem in report.problems)
            print_line(styled(("  ✗ " if bad else "  ✓ ", "red" if bad else "green"), file))
        for notice in report.notices:
            print_line(f"warning: {notice.message}", "yellow")
        for problem in report.problems:
            print_line(f"error: {problem}", "red")
        count = len(report.domains)
        can = f"{counted(count, 'domain')} can be searched: {', '.join(report.domains)}"
        print_line(can if count else "no domain can be searched", "green" if report.ok and count else "")
        if report.unusable:
            print_line(f"cannot be searched: {', '.join(report.unusable)}", "red")
    return 0 if report.ok else USAGE


@config.command("personas", epilog="\b\nExample:\n  context-engine config personas")
@with_json
@with_location
def personas_command(location: ConfigLocation, as_json: bool) -> None:
    """List the personas that a search can name, with the settings of each."""
    personas = dict(sorted(location.load().config.personas.items()))
    settings = {name: {key: value for key, (value, _) in persona.layer.items()} for name, persona in personas.items()}
    if as_json:
        rows = {
            name: {"description": persona.description, "settings": settings[name]} for name, persona in personas.items()
        }
        print_json({"personas": rows})
        return
    for name, persona in personas.items():
        print_line(styled((name, "bold"), f"  {persona.description}" if persona.description else ""))
        print_line("  " + ", ".join(f"{key} {_value(value)}" for key, value in settings[name].items()), "dim")
    if not personas:
        print_line("config/personas.json names no persona.")


@config.command("diff", epilog="\b\nExamples:\n  context-engine config diff\n  context-engine config diff uat prod")
@click.argument("stages", nargs=-1, metavar="[STAGE [STAGE]]")
@with_json
@with_location
def diff_command(location: ConfigLocation, stages: tuple[str, ...], as_json: bool) -> None:
    """Show which settings differ from the defaults; with stages, what differs between them.

    One STAGE is compared with no stage.
    """
    if len(stages) > 2:
        raise click.UsageError("at most two stages can be compared")
    rows = _stage_rows(location, stages) if stages else _changed_rows(location)
    names = ("key", "default", "in force", "origin") if not stages else ("key", *_sides(stages))
    if as_json:
        print_json([dict(zip(names, row)) for row in rows])
        return
    if not rows:
        print_line("No difference.")
        return
    print_table(names, (map(_value, row) for row in rows))


@click.command(epilog="\b\nExample:\n  context-engine init my-bank && cd my-bank && context-engine config check")
@click.argument("folder", metavar="DIR")
def init(folder: str) -> None:
    """Write a commented configuration, a manifest and two sample documents into DIR.

    Nothing is overwritten.
    """
    for path in write_scaffold(Path(folder)):
        print_line(str(path))
    note("Next:", style="bold")
    note(f"  cd {folder}")
    note("  context-engine config check")
    note("  context-engine ingest documents --domain HANDBOOK")
    note('  context-engine search "hotel limit" --domain HANDBOOK')
    note("manifests/dify.example.yaml shows a domain whose documents lie in Dify.")


def _sides(stages: tuple[str, ...]) -> tuple[str, str]:
    return (stages[0], stages[1]) if len(stages) == 2 else ("no stage", stages[0])


def _stage_rows(location: ConfigLocation, stages: tuple[str, ...]) -> list[tuple[Any, ...]]:
    from context_engine.settings import find_config
    from context_engine.wiring.report import diff_stages

    left, right = (stages[0], stages[1]) if len(stages) == 2 else (None, stages[0])
    paths = find_config(location.config_dir, env=os.environ, cwd=Path.cwd())
    return [tuple(row) for row in diff_stages(paths, left, right, env=os.environ)]


def _changed_rows(location: ConfigLocation) -> list[tuple[Any, ...]]:
    from context_engine.wiring.report import changed
    from context_engine.wiring.report import show as settings_in_force

    setup = location.load()
    return [
        (setting.key, setting.default, setting.value, setting.origin) for setting in changed(settings_in_force(setup))
    ]


def _access(setup: Setup) -> str:
    """Return the active policy and the operating system user's principal."""
    from context_engine.settings.access_file import MANIFEST_POLICY

    access = access_in_force(setup)
    if access["policy"] is None:
        return "no rule, everybody may search everything"
    who = access["principal"] or "nobody"
    by = "the rules of the manifests" if access["policy"] == MANIFEST_POLICY else f"the policy {access['policy']!r}"
    return f"{by}; the user {access['user']!r} is {who}{', an operator' if access['operator'] else ''}"


def _where(paths: ConfigPaths) -> Text:
    folders = [str(folder) for folder in (paths.config_dir, paths.manifest_dir) if folder]
    if not folders:
        return Text("No configuration found: built-in values, no domain. 'context-engine init DIR' writes a first one.")
    return Text(f"{paths.origin}: ", "dim").append(clean(" and ".join(folders)), "")


def _data_dir(setup: Setup, location: ConfigLocation) -> Path | None:
    """Return the folder of the embedded base; None if there is no home folder."""
    try:
        return setup.data_dir(location.data_dir)
    except ConfigError:
        return None


def _settings(shown: Iterable[ShownSetting], width: int) -> Table:
    wide = width >= 110
    columns = 4 if wide else 3
    rows: list[tuple[str | Text, ...]] = []
    group = ""
    for setting in shown:
        if setting.group != group:
            group = setting.group
            if rows:
                rows.append(())
            rows.append((Text(group, "bold"), "", "", Text(_GROUP_HEADINGS[group], "dim"))[:columns])
        own = setting.origin != "default"
        cells = (
            setting.key,
            Text(_value(setting_words(setting.key, setting.value)), "bold" if own else ""),
            Text(clean(setting.origin), "" if own else "dim"),
            Text(setting.description, "dim"),
        )
        rows.append(cells[:columns])
    return table(("setting", "value", "origin", "meaning")[:columns], rows)


def _print_pairs(values: Mapping[str, Any]) -> None:
    rows = ((key, _value(value)) for key, value in values.items())
    print_table(("", ""), rows, indented=True, header=False)


def _value(value: Any) -> str:
    if value is None:
        return "–"
    return clean(value) if isinstance(value, str) else clean(json.dumps(value, ensure_ascii=False, default=str))


def scaffold_files() -> dict[str, bytes]:
    """Return the files of the first configuration: relative path -> content, sorted."""
    templates = _walk(files("context_engine.settings") / "templates", PurePosixPath())
    return dict(sorted((("config/personas.json", personas_file()), *templates)))


def write_scaffold(folder: Path) -> list[Path]:
    """Write the first configuration into a folder, which is created if missing, and return the files.

    Raises:
        ConfigError: one of the files exists (then nothing is written), or the folder is not writable.
    """
    contents = {folder / name: content for name, content in scaffold_files().items()}
    present = [path.relative_to(folder).as_posix() for path in contents if path.exists() or path.is_symlink()]
    if present:
        raise ConfigError(f"{folder} already holds {', '.join(present)}: move them away, or name another folder")
    try:
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written to: {error.strerror}") from None
    return list(contents)


def _walk(folder: Traversable, name: PurePosixPath) -> Iterator[tuple[str, bytes]]:
    for child in folder.iterdir():
        if child.is_dir():
            yield from _walk(child, name / child.name)
        else:
            yield str(name / child.name), child.read_bytes()
