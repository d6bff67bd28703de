"""`${VAR}`, `${VAR:-default}` and `${file:/path}` in configuration values; `$${` is a literal `${`.

A variable may hold a secret. `${file:...}` is allowed in connections only. Texts that everybody sees, such as
titles, and access rules take no variable. No message repeats a key that was pasted where a name belongs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from context_engine.errors import ConfigError, MissingVariable
from context_engine.secrecy import looks_like_key
from context_engine.settings.files import Location, dotted

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
