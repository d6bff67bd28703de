"""`context-engine completion`, and the completions themselves.

A completion must come at once, so it imports no command: the commands and their options are read from `commands.json`,
which `.ci/reference.py` writes, and the names of domains, personas and sources from the files of the configuration.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)

_HERE: Final = Path(__file__).resolve().parent
_VARIABLE: Final = "_CONTEXT_ENGINE_COMPLETE"
_NAMED: Final = {"--domain": "domain", "--persona": "persona", "--source": "source", "--namespace": "namespace"}
_METAVARS: Final = {"FILE": "file", "FILES": "file", "PATH": "file", "PATHS": "file", "DIR": "dir", "FOLDER": "dir"}
_PLACES: Final = ("file", "dir")
Command = Mapping[str, Any]


class _Complete(ShellComplete):
    """Completes from `commands.json`; another base class knows the shell."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        return completions(args, incomplete)


class _Bash(_Complete, BashComplete):
    def source(self) -> str:
        return ShellComplete.source(self)  # click's own would start a bash to ask for its version


class _Zsh(_Complete, ZshComplete):
    pass


class _Fish(_Complete, FishComplete):
    pass


_SHELLS: Final[dict[str, type[ShellComplete]]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


def complete_in_shells() -> None:
    """Let the scripts that `completion` prints complete from `commands.json`."""
    for name, shell in _SHELLS.items():
        add_completion_class(shell, name)


_EPILOG: Final = """\b
Once for each user:
  context-engine completion bash > ~/.local/share/bash-completion/completions/context-engine
  context-engine completion zsh > "${fpath[1]}/_context-engine"
  context-engine completion fish > ~/.config/fish/completions/context-engine.fish
"""


@click.command(epilog=_EPILOG)
@click.argument("shell", type=click.Choice(sorted(_SHELLS)))
def completion(shell: str) -> None:
    """Print the script that completes commands in SHELL.

    Options are completed too, and the names of domains, personas and sources.
    """
    from context_engine.apps.cli import main

    click.echo(_SHELLS[shell](main, {}, "context-engine", _VARIABLE).source())


@cache
def _commands() -> Command:
    tree: Command = json.loads((_HERE / "commands.json").read_text("utf-8"))
    return tree


def completions(words: Sequence[str], incomplete: str) -> list[CompletionItem]:
    """Return what a word may be completed to.

    Args:
        words: those before it, without the program's name.
        incomplete: its beginning, possibly empty.
    """
    command, given, kind = _reached(words)
    if kind is None and incomplete.startswith("--") and "=" in incomplete:
        option, _, start = incomplete.partition("=")
        values = _values(command["options"].get(option), start, given)
        return [item if item.type in _PLACES else CompletionItem(f"{option}={item.value}") for item in values]
    if kind is not None:
        return _values(kind, incomplete.removeprefix("="), given)
    if incomplete.startswith("-"):
        return [CompletionItem(option) for option in command["options"] if option.startswith(incomplete)]
    if command["commands"]:
        known = command["commands"].items()
        return [CompletionItem(name, help=row["help"]) for name, row in known if name.startswith(incomplete)]
    return _values(command["argument"], incomplete, given)


def _reached(words: Sequence[str]) -> tuple[Command, dict[str, str], Any]:
    """Return the command that the words name, the options already given, and the option whose value comes next.

    The latter is None if an option, a command or an argument comes next.
    """
    command, given = _commands(), {}
    option = ""
    for word in words:
        name, equals, value = word.partition("=")
        if option and word == "=":  # a word of its own in bash
            continue
        if option:
            given[option], option = word, ""
        elif equals:
            given[name] = value
        elif command["options"].get(word) is not None:
            option = word
        elif word in command["commands"]:
            command = command["commands"][word]
    return command, given, command["options"].get(option)


def _values(kind: Any, start: str, given: Mapping[str, str]) -> list[CompletionItem]:
    if kind in _PLACES:
        return [CompletionItem(start, type=kind)]
    values = kind if isinstance(kind, list) else ()
    if kind in _NAMED.values():
        domain = given.get("--domain", given.get("-d"))
        values = configured_names(kind, given.get("--config-dir"), domain)
    return [CompletionItem(value) for value in values if value.startswith(start)]


def command_tree(command: click.Command) -> dict[str, Any]:
    """Return a command for `commands.json`: its options with what their values are, its argument and its commands.

    The kind of a value is a list of choices, "file", "dir", "domain", "persona", "source", "namespace", "" for any
    text, or None for a flag.
    """
    context = click.Context(command)
    commands = command.commands if isinstance(command, click.Group) else {}
    helps = getattr(command, "short_helps", {})
    arguments = [param for param in command.get_params(context) if isinstance(param, click.Argument)]
    return {
        "options": dict(sorted(_options(command, context))),
        "argument": _kind_of(arguments[-1]) if arguments else "",
        "commands": {
            name: {"help": helps.get(name) or child.get_short_help_str(100), **command_tree(child)}
            for name, child in sorted(commands.items())
        },
    }


def _options(command: click.Command, context: click.Context) -> Iterator[tuple[str, Any]]:
    for param in command.get_params(context):
        if isinstance(param, click.Option) and not param.hidden:
            kind = None if param.is_flag or param.count else _kind_of(param)
            for option in (*param.opts, *param.secondary_opts):
                yield option, kind


def _kind_of(param: click.Parameter) -> Any:
    if isinstance(param.type, click.Choice):
        return [str(choice) for choice in param.type.choices]
    if isinstance(param.type, click.Path):
        return "file" if param.type.file_okay else "dir"
    named = next((kind for option, kind in _NAMED.items() if option in param.opts), None)
    return named or _METAVARS.get((param.metavar or param.name or "").upper().strip("[]. "), "")


_PACKAGE: Final = Path(__file__).resolve().parents[2]
_RULES: Final = "access.yaml"
Rows = Iterable[Mapping[str, Any]]


def configured_names(kind: str, config_dir: str | None, domain: str | None) -> list[str]:
    """Return the names that the user may know, sorted; none if the configuration cannot be read.

    Args:
        kind: "domain", "persona", "source" or "namespace".
        config_dir: the value of `--config-dir`.
        domain: only the sources and namespaces of this domain.
    """
    try:
        folder = _folder(config_dir)
        if kind == "persona":
            return sorted(_personas(folder))
        manifests = list(_manifests(folder))
        if _has_rules(folder, manifests):
            manifests = _known(config_dir)
    except Exception:  # noqa: BLE001  whoever completes sees nothing; the command itself says what is wrong
        return []
    if kind == "domain":
        return sorted(str(row["domain"]) for row in manifests)
    chosen = [row for row in manifests if domain in (None, row["domain"])]
    key = "id" if kind == "source" else kind
    return sorted({str(source[key]) for row in chosen for source in row["sources"] if source.get(key)})


def _folder(config_dir: str | None) -> Path | None:
    """Return the folder that holds config/ and manifests/, in the order of `find_config`; None for the demo bank."""
    named = config_dir or os.environ.get("CONTEXT_ENGINE_CONFIG_DIR")
    if named:
        folder = Path(named).expanduser()
        return folder.parent if folder.name == "config" else folder
    user = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "context-engine"
    return next((place for place in (Path.cwd(), user) if (place / "manifests").is_dir()), None)


def _files(folder: Path | None, name: str) -> Iterator[Path]:
    """Yield the places of a configuration file that exist."""
    for place in () if folder is None else (folder / "config" / name, folder / name):
        if place.is_file():
            yield place


def _personas(folder: Path | None) -> Iterator[str]:
    path = next(_files(folder, "personas.json"), _PACKAGE / "settings" / "personas.json")
    yield from (name for name, row in json.loads(path.read_text("utf-8")).items() if isinstance(row, dict))


def _manifests(folder: Path | None) -> Iterator[Mapping[str, Any]]:
    import yaml

    place = _PACKAGE / "demo" if folder is None else folder
    for path in sorted((place / "manifests").glob("*.y*ml")):
        if ".example." not in path.name:
            row = yaml.load(path.read_text("utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            if isinstance(row, dict) and {"domain", "sources"} <= row.keys():
                yield row


def _has_rules(folder: Path | None, manifests: Rows) -> bool:
    ruled = any("access" in row or any("access" in source for source in row["sources"]) for row in manifests)
    return ruled or any(_files(folder, _RULES))


def _known(config_dir: str | None) -> list[Mapping[str, Any]]:
    """Return the domains and sources that the user may know, by the whole configuration."""
    from context_engine.apps.cli.context import acting_principal
    from context_engine.wiring.setup import load_setup

    setup = load_setup(config_dir=config_dir)
    known = setup.visible(acting_principal(setup.config.principals, None))
    return [
        {"domain": spec.domain, "sources": [source.model_dump(include={"id", "namespace"}) for source in spec.sources]}
        for spec in known.domains.values()
    ]
