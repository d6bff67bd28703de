"""Configuration files as mappings, with their variables filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from yaml.constructor import SafeConstructor

from context_engine.core.models import is_valid_text
from context_engine.core.text.strict_json import DuplicateKey, read_strict, unique_members
from context_engine.errors import ConfigError, MissingVariable
from context_engine.secrecy import looks_like_key

_MAX_BYTES: Final = 1_000_000
_MAX_VALUES: Final = 50_000
_MAX_DEPTH: Final = 20
Location = tuple[str | int, ...]
"""The path from the top of a file to a value: keys and list indices."""


def read_json(path: Path, label: str) -> dict[str, Any]:
    """Return a JSON object without `$schema` and without comments (keys that begin with `//`).

    Raises:
        ConfigError: the file cannot be read, is not JSON, has a key twice or is not an object.
    """
    text = _text(path, label)
    try:
        value = read_strict(text, members=_without_comments)
    except json.JSONDecodeError as error:
        raise ConfigError(f"is not JSON: {error.msg}, line {error.lineno}, column {error.colno}", file=label) from None
    except RecursionError:
        raise ConfigError(f"is nested deeper than {_MAX_DEPTH} levels", file=label) from None
    except DuplicateKey as error:
        raise ConfigError("appears twice: keep one", file=label, key=error.key) from None
    except ValueError as error:
        raise ConfigError(str(error), file=label) from None
    return _mapping(value, label)


def read_yaml(path: Path, label: str, *, may_be_empty: bool = False) -> dict[str, Any]:
    """Return a YAML mapping; anchors and merge keys are allowed. If `may_be_empty`, a file of comments only is {}.

    Raises:
        ConfigError: the file cannot be read, is not YAML, has a key twice or is not a mapping.
    """
    text = _text(path, label)
    try:
        value = _loaded(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(f"is not valid YAML: {error.problem}{where}", file=label) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"is not valid YAML: {str(error).splitlines()[0]}", file=label) from None
    return _mapping({} if value is None and may_be_empty else value, label)


def dotted(location: Location, data: Any) -> str:
    """Return a location for people; a list item that has an id is named by it.

    >>> dotted(("sources", 0, "tier"), {"sources": [{"id": "bank_sops", "tier": 9}]})
    'sources.bank_sops.tier'
    """
    parts: list[str] = []
    for step in location:
        data = _step(data, step)
        name = data.get("id") if isinstance(step, int) and isinstance(data, Mapping) else None
        parts.append(name if isinstance(name, str) else str(step))
    return ".".join(parts)


def _step(data: Any, step: str | int) -> Any:
    try:
        return data[step]
    except (KeyError, IndexError, TypeError):
        return None


def _text(path: Path, label: str) -> str:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError(f"is larger than {_MAX_BYTES} bytes: this is not a configuration file", file=label)
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8 text (byte {error.start}): save it as UTF-8", file=label) from None
    except OSError as error:
        raise unreadable(error, label) from None


def unreadable(error: OSError, label: str) -> ConfigError:
    """Return the error for a file or folder that cannot be read."""
    if isinstance(error, IsADirectoryError):
        return ConfigError("is a folder where a file is expected: rename it or move it away", file=label)
    mend = ": let the user who runs this read it" if isinstance(error, PermissionError) else ""
    return ConfigError(f"cannot be read ({error.strerror}){mend}", file=label)


def _without_comments(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    return unique_members((key, value) for key, value in pairs if not key.startswith("//") and key != "$schema")


def _loaded(text: str) -> Any:
    """Parse YAML with libyaml, ten times as fast; parse invalid YAML again in Python, whose messages say more."""
    try:
        return yaml.load(text, _FastLoader)
    except yaml.YAMLError:
        return yaml.load(text, _Loader)


class _UniqueKeys(SafeConstructor):
    """Refuses duplicate keys.

    It checks composed nodes, where merge keys are not yet resolved: overriding a merged key is no duplicate.
    """

    def construct_document(self, node: yaml.Node) -> Any:
        pending, visited = [node], {id(node)}
        while pending:
            children = _children(pending.pop())
            pending += [child for child in children if id(child) not in visited]
            visited.update(map(id, children))
        return super().construct_document(node)


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        return list(node.value)
    if not isinstance(node, yaml.MappingNode):
        return []
    keys: set[tuple[str, str]] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            if (key.tag, key.value) in keys:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} appears twice", problem_mark=key.start_mark)
            keys.add((key.tag, key.value))
    return [child for pair in node.value for child in pair]


class _Loader(_UniqueKeys, yaml.SafeLoader):
    pass


class _FastLoader(_UniqueKeys, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    pass


def _mapping(value: Any, label: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        problem = "is empty" if value is None else f"holds a {type(value).__name__}"
        raise ConfigError(f"{problem}: it must hold keys with values", file=label)
    _check_shape(value, label)
    return value


def _check_shape(top: dict[str, Any], label: str) -> None:
    """Refuse keys that are not text, aliases that expand to a huge structure, and cycles."""
    pending: list[tuple[Location, Any]] = [((), top)]
    for _ in range(_MAX_VALUES + 1):
        if not pending:
            return
        location, value = pending.pop()
        if len(location) > _MAX_DEPTH:
            raise ConfigError(f"is nested deeper than {_MAX_DEPTH} levels", file=label)
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise ConfigError(
                        f"the key {key!r} is not text: put it in quotes", file=label, key=dotted(location, top) or None
                    )
            pending.extend(((*location, key), child) for key, child in value.items())
        elif isinstance(value, str) and not is_valid_text(value):
            problem = "holds NUL or half a surrogate pair (\\ud800-\\udfff), which is no character: take it out"
            raise ConfigError(problem, file=label, key=dotted(location, top))
        elif isinstance(value, list):
            pending.extend(((*location, index), child) for index, child in enumerate(value))
    raise ConfigError(f"holds more than {_MAX_VALUES} values", file=label)


_FORM: Final = re.compile(r"\$\$\{|\$\{([^{}]*)\}|\$\{")
_VARIABLE: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_MAX_SECRET_BYTES: Final = 65_536
_OF_SECRET: Final = re.compile("key|token|secret|password")
"""Parts of the names of secret fields; they take no default, which would put the secret into the file."""

_NO_FORM: Final = "'${...}' must hold NAME, NAME:-default or file:/path"
_NO_FILE: Final = "a file can be read in connections only: write the value out, or use ${NAME}"
_FIXED: Final = "takes no variable or file: write the value out ('$${' is a literal '${')"

_PASTED_NAME: Final = (
    "this looks like a key where the name of a variable belongs: write ${NAME}, set NAME to the key where this "
    "runs, and have the key replaced if others may read this file"
)

_PASTED_PATH: Final = (
    "this looks like a key where the path of a file belongs: write ${file:/run/secrets/NAME}, put the key into "
    "that file, and have the key replaced if others may read this one"
)


class Unparsed(str):
    """Text from a command line, not yet parsed by the type of its key."""

    __slots__ = ()


class FromVariable(Unparsed):
    """Text that came from a `${...}`: parsed by the type of its key; messages show `written`, the expression."""

    __slots__ = ("written",)
    written: str

    def __new__(cls, text: str, written: str = "${...}") -> FromVariable:
        """Return the text together with its expression."""
        made = super().__new__(cls, text)
        made.written = written
        return made


class Unfilled(str):
    """Text as written whose `${...}` could not be filled in; its value is unknown."""

    __slots__ = ()


def plain(value: Any) -> Any:
    """Return a copy in which text from variables that reads as a number or flag becomes one."""
    if isinstance(value, dict):
        return {key: plain(child) for key, child in value.items()}
    if isinstance(value, list):
        return [plain(child) for child in value]
    if not isinstance(value, FromVariable):
        return value
    try:
        read = json.loads(value)
    except ValueError:
        return value
    return read if isinstance(read, (int, float)) else value


@dataclass(frozen=True, slots=True)
class Interpolator:
    """Fills in the text values of one file.

    Attributes:
        env: the environment.
        folder: the folder of the file; relative paths in `${file:...}` start here.
        file: the file's name in messages.
        files: whether `${file:...}` is allowed (connections only).
        fixed: returns for a location whether its value takes no variable.
    """

    env: Mapping[str, str] = field(repr=False)
    folder: Path
    file: str
    files: bool = False
    fixed: Callable[[Location], bool] = lambda _: False

    def fill(self, data: Any, *, below: Location = ()) -> Any:
        """Return a copy of parsed JSON or YAML with every text value filled in. Files are read at every call.

        Args:
            data: the values.
            below: the location of `data` in its file, for messages.

        Raises:
            MissingVariable: variables are not set or files cannot be read; it lists all of them.
            ConfigError: a malformed expression, or one that is not allowed there.
        """
        filled, problems = self.fill_known(data, below=below)
        if problems:
            raise ConfigError.together(problems)
        return filled

    def fill_known(self, data: Any, *, below: Location = ()) -> tuple[Any, list[ConfigError]]:
        """Like `fill`, but return `Unfilled` text for what cannot be filled in, together with the problems."""
        problems: list[ConfigError] = []

        def walk(value: Any, location: Location) -> Any:
            if isinstance(value, dict):
                return {key: walk(child, (*location, key)) for key, child in value.items()}
            if isinstance(value, list):
                return [walk(child, (*location, index)) for index, child in enumerate(value)]
            if not isinstance(value, str) or "${" not in value:
                return value
            key = ".".join(part for part in (*map(str, below), dotted(location, data)) if part)
            try:
                return self._text(value, key, fixed=self.fixed(location))
            except ConfigError as error:
                problems.append(error)
                return Unfilled(value)

        return walk(data, ()), problems

    def _text(self, text: str, key: str, *, fixed: bool) -> str:
        parts: list[str] = []
        end, filled = 0, False
        for match in _FORM.finditer(text):
            parts.append(text[end : match.start()])
            end = match.end()
            if match.group() == "$${":
                parts.append("${")
            elif match.group(1) is None:
                raise ConfigError(
                    "'${' is not closed, or holds another '${': write '$${' for a literal '${'", file=self.file, key=key
                )
            elif fixed:
                raise ConfigError(_FIXED, file=self.file, key=key)
            else:
                parts.append(self._value(match.group(1), key))
                filled = True
        filled_text = "".join((*parts, text[end:]))
        return FromVariable(filled_text, text) if filled else filled_text

    def _value(self, form: str, key: str) -> str:
        if form.startswith("file:"):
            return self._file(form.removeprefix("file:").strip(), key)
        match = _VARIABLE.fullmatch(form)
        if match is None:
            raise ConfigError(_PASTED_NAME if looks_like_key(form) else _NO_FORM, file=self.file, key=key)
        name, default = match.groups()
        if name not in self.env and looks_like_key(name):
            raise ConfigError(_PASTED_NAME, file=self.file, key=key)
        value = self.env.get(name)
        if default is not None:
            return value or default
        if value is None:
            other = "" if _OF_SECRET.search(key.rpartition(".")[2]) else f", or write ${{{name}:-default}}"
            problem = f"the variable {name} is not set: set it{other}"
            raise MissingVariable(problem, file=self.file, key=key)
        return value

    def _file(self, name: str, key: str) -> str:
        if not self.files:
            raise ConfigError(_NO_FILE, file=self.file, key=key)
        path = self.folder / name
        if looks_like_key(name) and not path.is_file():
            raise ConfigError(_PASTED_PATH, file=self.file, key=key)
        try:
            content = path.read_bytes()
            if len(content) > _MAX_SECRET_BYTES:
                raise ConfigError(f"the file {path} is too large to be a value", file=self.file, key=key)
            return content.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise ConfigError(f"the file {path} is not UTF-8 text", file=self.file, key=key) from None
        except OSError as error:
            mend = "let the user who runs this read it" if path.is_file() else "put the value there"
            problem = f"the file {path} cannot be read ({error.strerror}): {mend}"
            raise MissingVariable(problem, file=self.file, key=key) from None
