"""Token counters by name: the approximate one, and tiktoken's and tokenizers' with their files (extra `tokens`)."""

from __future__ import annotations

import binascii
import os
from base64 import b64decode
from collections.abc import Callable, Mapping
from hashlib import sha1, sha256
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.core.protocols import TokenCounter
from context_engine.errors import ConfigError, MissingExtra, nearest

if TYPE_CHECKING:
    from tiktoken import Encoding


ENCODINGS: Final = ("cl100k_base", "o200k_base", "p50k_base", "r50k_base")
_FOLDER: Final = "TIKTOKEN_CACHE_DIR"
_URL: Final = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
_LOADER: Final = "load_tiktoken_bpe"


class TiktokenCounter:
    """Counts with one of tiktoken's encodings, read from a file; nothing is downloaded.

    Args:
        path: the encoding's file, or a folder with `ENCODING.tiktoken` or with tiktoken's own cache.
        encoding: one of ENCODINGS; the file's name without its suffix if None.

    Raises:
        ConfigError: the encoding is unknown, or its file is missing or cannot be read.
        MissingExtra: the extra `tokens` is not installed.
    """

    def __init__(self, path: str | os.PathLike[str], encoding: str | None = None) -> None:
        file = Path(path).expanduser()
        name = encoding or file.stem
        if name not in ENCODINGS:
            raise ConfigError(f"tiktoken encoding {name!r} is not known.{nearest(name, ENCODINGS)}")
        if file.is_dir():
            file = _within(file, name)
        if not file.is_file():
            raise ConfigError(f"there is no file of the encoding at {file}. {_how(name)}")
        self.name = f"tiktoken/{name}"
        self._encoding = _opened(name, file)

    @classmethod
    def named(cls, name: str, *, env: Mapping[str, str] | None = None) -> TiktokenCounter:
        """Return a counter by the name of an encoding, found in the folder TIKTOKEN_CACHE_DIR, or by its file.

        Raises:
            ConfigError: see the class; or the variable is not set.
            MissingExtra: the extra `tokens` is not installed.
        """
        if name not in ENCODINGS:
            return cls(name)
        folder = (os.environ if env is None else env).get(_FOLDER, "")
        if not folder:
            raise ConfigError(f"the folder with the file of {name} is not set. {_how(name)}")
        return cls(folder, name)

    def count(self, text: str) -> int:
        """Return the number of tokens; special tokens count as plain text."""
        return len(self._encoding.encode_ordinary(text))


def _within(folder: Path, name: str) -> Path:
    """Return the encoding's file in a folder: under the name of tiktoken's cache, else under its own."""
    cached = folder / sha1(_URL.format(name).encode(), usedforsecurity=False).hexdigest()
    return cached if cached.is_file() else folder / f"{name}.tiktoken"


def _how(name: str) -> str:
    return (
        f"Nothing is downloaded: where there is a network, fetch {_URL.format(name)}, bring the file here, and "
        f"set {_FOLDER} to its folder or name the counter 'tiktoken:/FOLDER/{name}.tiktoken'"
    )


def _opened(name: str, file: Path) -> Encoding:
    try:
        from tiktoken import Encoding
        from tiktoken_ext import openai_public
    except ImportError as error:
        raise MissingExtra("token counter 'tiktoken'", "tokens") from error
    ranks = _ranks(file)
    parts = _offline(getattr(openai_public, name), ranks)()
    try:
        return Encoding(**parts)
    except (AssertionError, ValueError) as error:
        raise ConfigError(f"{file} is incomplete: it is not the vocabulary of {name}") from error


def _offline(constructor: Any, ranks: Mapping[bytes, int]) -> Callable[[], dict[str, Any]]:
    """Return tiktoken's own description of an encoding with the ranks of our file: its loader would use the network."""
    if _LOADER not in constructor.__code__.co_names:
        raise ConfigError(
            "this version of tiktoken describes its encodings in another way; install tiktoken 0.7 to 0.14"
        )
    own = {**constructor.__globals__, _LOADER: lambda *_args, **_options: ranks}
    return FunctionType(constructor.__code__, own)


def _ranks(file: Path) -> dict[bytes, int]:
    """Read the ranks of an encoding: each line is a token in base64, a space, and its rank."""
    try:
        rows = (line.split() for line in file.read_bytes().splitlines() if line)
        ranks = {b64decode(token, validate=True): int(rank) for token, rank in rows}
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}") from None
    except (ValueError, binascii.Error):
        raise ConfigError(f"{file} is not an encoding of tiktoken: a line is a token in base64 and its rank") from None
    if len(ranks) < 256:
        raise ConfigError(f"{file} is incomplete: an encoding has a rank for each of the 256 bytes")
    return ranks


class TokenizersCounter:
    """Counts with a tokenizer of the Hugging Face library `tokenizers`, read from its file; nothing is downloaded.

    Truncation and padding are switched off and no special tokens are added: only the text is counted.

    Args:
        path: a `tokenizer.json`, or the folder of a model that holds one.

    Raises:
        ConfigError: the file is missing or cannot be read.
        MissingExtra: the extra `tokens` is not installed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        place = Path(path).expanduser()
        file = place / "tokenizer.json" if place.is_dir() else place
        if not file.is_file():
            raise ConfigError(
                f"there is no {file}. Nothing is downloaded: bring the tokenizer.json of the model here and name the "
                "counter 'tokenizers:/FOLDER/tokenizer.json'"
            )
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise MissingExtra("token counter 'tokenizers'", "tokens") from error
        try:
            self._tokenizer = Tokenizer.from_file(str(file))
        except Exception as error:  # noqa: BLE001 - the library raises plain Exception
            raise ConfigError(f"{file} is not a tokenizer: {error}") from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        mark = sha256(file.read_bytes()).hexdigest()[:8]
        self.name = f"tokenizers/{file.resolve().parent.name}#{mark}"

    def count(self, text: str) -> int:
        """Return the number of tokens; at least 1 for a text that is not empty."""
        return max(1, len(self._tokenizer.encode(text, add_special_tokens=False).ids)) if text else 0


COUNTERS: Final = ("approx", "tiktoken", "tokenizers")


def open_counter(name: str, *, env: Mapping[str, str] | None = None) -> TokenCounter:
    """Return a counter by its name; nothing is ever downloaded.

    Args:
        name: `approx`; `tiktoken:cl100k_base` (its file in the folder TIKTOKEN_CACHE_DIR) or
            `tiktoken:/models/cl100k_base.tiktoken`; `tokenizers:/models/minilm/tokenizer.json` or its folder.

    Raises:
        ConfigError: the counter is unknown, or its file is missing or cannot be read.
        MissingExtra: the extra `tokens` is not installed.
    """
    kind, _, place = name.partition(":")
    if kind not in COUNTERS:
        raise ConfigError(f"token counter {name!r} is not known.{nearest(kind, COUNTERS)}")
    if kind == "approx" and not place:
        return ApproxTokenCounter()
    if kind == "approx" or not place:
        form = {"approx": "approx", "tiktoken": "tiktoken:cl100k_base", "tokenizers": "tokenizers:FOLDER"}[kind]
        raise ConfigError(f"token counter {name!r} is not of the form '{form}'")
    return TokenizersCounter(place) if kind == "tokenizers" else TiktokenCounter.named(place, env=env)
