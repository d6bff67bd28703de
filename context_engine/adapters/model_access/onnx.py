"""A model in ONNX form, from a folder with its weights and `tokenizer.json`; needs the extra `onnx`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from context_engine.errors import ContextEngineError, MissingExtra

_PLACES: Final = ("model.onnx", "onnx/model.onnx")
LONGEST: Final = 512


class OnnxRun:
    """What one batch gave.

    Attributes:
        outputs: arrays by the names the model gives them.
        ids, mask, special: int64 arrays [texts, tokens]; `special` is 1 at the model's own marks and at padding.
        tokens: the tokens of each text, padding and all.
    """

    def __init__(self, outputs: dict[str, Any], encodings: Sequence[Any]) -> None:
        import numpy as np

        self.outputs = outputs
        self.ids = np.array([one.ids for one in encodings], np.int64)
        self.mask = np.array([one.attention_mask for one in encodings], np.int64)
        self.special = np.array([one.special_tokens_mask for one in encodings], np.int64)
        self.tokens = [one.tokens for one in encodings]


class OnnxModel:
    """A loaded model with its tokenizer.

    Args:
        folder: holds the files.
        what: who asks, for messages.
        error: makes the error for files that are not there or cannot be read.
        threads: of the CPU; the runtime's own choice if None.
        max_tokens: texts are cut there.

    Raises:
        MissingExtra: onnxruntime or tokenizers is not installed.
        ContextEngineError: the one that `error` makes.
    """

    def __init__(
        self,
        folder: Path,
        *,
        what: str,
        error: Callable[[str], ContextEngineError],
        threads: int | None = None,
        max_tokens: int = LONGEST,
    ) -> None:
        try:
            import onnxruntime
            import tokenizers
        except ImportError as missing:
            raise MissingExtra(what, "onnx") from missing
        weights = next((folder / name for name in _PLACES if (folder / name).is_file()), None)
        if weights is None or not (folder / "tokenizer.json").is_file():
            raise error(f"there is no model in {folder}: it must hold {' or '.join(_PLACES)} and tokenizer.json")
        options = onnxruntime.SessionOptions()
        if threads:
            options.intra_op_num_threads = threads
        try:
            self._session = onnxruntime.InferenceSession(str(weights), options, providers=["CPUExecutionProvider"])
            self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as problem:  # both libraries raise errors of no common kind
            raise error(f"the model in {folder} cannot be read ({type(problem).__name__})") from problem
        self._inputs = {one.name for one in self._session.get_inputs()}
        self._outputs = [one.name for one in self._session.get_outputs()]
        self._tokenizer.enable_truncation(max_tokens)
        padding = self._tokenizer.padding or {}
        kept = {key: padding[key] for key in ("pad_id", "pad_token", "pad_type_id") if key in padding}
        self._tokenizer.enable_padding(**(kept or self._pad()))

    def _pad(self) -> dict[str, Any]:
        """Return what a tokenizer that has never padded would pad with."""
        for token in ("[PAD]", "<pad>"):
            number = self._tokenizer.token_to_id(token)
            if number is not None:
                return {"pad_id": number, "pad_token": token}
        return {}

    def __call__(self, texts: Sequence[str] | Sequence[tuple[str, str]]) -> OnnxRun:
        """Run the model over texts, or over pairs of texts."""
        import numpy as np

        encodings = self._tokenizer.encode_batch(list(texts))
        feed = {
            "input_ids": np.array([one.ids for one in encodings], np.int64),
            "attention_mask": np.array([one.attention_mask for one in encodings], np.int64),
            "token_type_ids": np.array([one.type_ids for one in encodings], np.int64),
        }
        found = self._session.run(self._outputs, {name: feed[name] for name in feed if name in self._inputs})
        return OnnxRun(dict(zip(self._outputs, found)), encodings)
