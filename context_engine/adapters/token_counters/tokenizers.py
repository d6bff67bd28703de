"""Tokens as the model of a `tokenizer.json` counts them; needs the extra `tokens`."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from context_engine.errors import ConfigError, MissingExtra


class TokenizersCounter:
    """Counts with a tokenizer of the Hugging Face library `tokenizers`, read from its file; nothing is downloaded.

    Its truncation and padding are switched off, and no special tokens are added: what is counted is the text.

    Args:
        path: a `tokenizer.json`, or the folder of a model that holds one.

    Raises:
        ConfigError: the file is not there or cannot be read.
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
