"""Models on this machine, run by onnxruntime (extra `onnx`) or sentence-transformers (extra `embed`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol

from context_engine.errors import ContextEngineError, EmbedderError, MissingExtra

_EDGE: Final = 1 << 20
_SMALL: Final = ("config.json", "tokenizer.json", "modules.json", "1_Pooling/config.json")
_WEIGHTS: Final = ("model.safetensors", "model.onnx", "onnx/model.onnx", "pytorch_model.bin")


def as_folder(model: str) -> Path | None:
    """Return the folder that a model's name denotes; None for a hub name ("owner/model").

    A name that begins with / ./ ../ or ~ is a path, whether or not it exists.
    """
    path = Path(model).expanduser()
    return path if path.is_dir() or model.startswith(("/", "./", "../", "~")) else None


def model_name(model: str, revision: str | None = None) -> str:
    """Return a name that two models share only if their vectors are comparable.

    A hub's name has its revision; a folder's name has a hash of its small files, and of the sizes, first and last MiB
    of the weights.

    Raises:
        EmbedderError: a folder without any of these files, whose name would look like that of another model.
    """
    folder = as_folder(model)
    if folder is None:
        return f"{model}@{revision}" if revision else model
    if not any((folder / name).is_file() for name in (*_SMALL, *_WEIGHTS)):
        raise EmbedderError(how_to_get(model))
    mark = sha256()
    for name in _SMALL:
        if (folder / name).is_file():
            mark.update((folder / name).read_bytes())
    for name in _WEIGHTS:
        if (folder / name).is_file():
            mark.update(_edges(folder / name))
    return f"{folder.resolve().name}#{mark.hexdigest()[:12]}"


def _edges(path: Path) -> bytes:
    size = path.stat().st_size
    with path.open("rb") as file:
        first = file.read(_EDGE)
        file.seek(max(size - _EDGE, 0))
        return str(size).encode() + first + file.read(_EDGE)


def how_to_get(model: str) -> str:
    """Return the instruction for getting a model's files onto this machine."""
    if as_folder(model) is not None:
        return f"there is no model in {model}: give the folder that holds its config.json and weights"
    return (
        f"the files of {model} are not on this machine, and nothing is downloaded: where there is a network, run "
        f"'hf download {model} --local-dir FOLDER', bring FOLDER here and name it as model; or set download: true"
    )


_PLACES: Final = ("model.onnx", "onnx/model.onnx")
LONGEST: Final = 512


class OnnxRun:
    """The output of one batch.

    Attributes:
        outputs: arrays by the names the model gives them.
        ids, mask, special: int64 arrays [texts, tokens]; `special` is 1 at the model's own marks and at padding.
        tokens: the tokens of each text, including padding.
    """

    def __init__(self, outputs: dict[str, Any], encodings: Sequence[Any]) -> None:
        import numpy as np

        self.outputs = outputs
        self.ids = np.array([encoding.ids for encoding in encodings], np.int64)
        self.mask = np.array([encoding.attention_mask for encoding in encodings], np.int64)
        self.special = np.array([encoding.special_tokens_mask for encoding in encodings], np.int64)
        self.tokens = [encoding.tokens for encoding in encodings]


class OnnxModel:
    """A loaded model with its tokenizer.

    Args:
        folder: holds the files.
        purpose: what the model is for, in messages.
        error: makes the error for missing or unreadable files.
        threads: CPU threads; the runtime's own choice if None.
        max_tokens: longer texts are cut.

    Raises:
        MissingExtra: onnxruntime or tokenizers is not installed.
        ContextEngineError: the one that `error` makes.
    """

    def __init__(
        self,
        folder: Path,
        *,
        purpose: str,
        error: Callable[[str], ContextEngineError],
        threads: int | None = None,
        max_tokens: int = LONGEST,
    ) -> None:
        try:
            import onnxruntime
            import tokenizers
        except ImportError as missing:
            raise MissingExtra(purpose, "onnx") from missing
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
        self._inputs = {tensor.name for tensor in self._session.get_inputs()}
        self._outputs = [tensor.name for tensor in self._session.get_outputs()]
        self._tokenizer.enable_truncation(max_tokens)
        padding = self._tokenizer.padding or {}
        kept = {key: padding[key] for key in ("pad_id", "pad_token", "pad_type_id") if key in padding}
        self._tokenizer.enable_padding(**(kept or self._pad()))

    def _pad(self) -> dict[str, Any]:
        """Return the padding of a tokenizer that defines none."""
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
            "input_ids": np.array([encoding.ids for encoding in encodings], np.int64),
            "attention_mask": np.array([encoding.attention_mask for encoding in encodings], np.int64),
            "token_type_ids": np.array([encoding.type_ids for encoding in encodings], np.int64),
        }
        arrays = self._session.run(self._outputs, {name: feed[name] for name in feed if name in self._inputs})
        return OnnxRun(dict(zip(self._outputs, arrays)), encodings)


class TorchModel(Protocol):
    """The options by which a model is found and run."""

    @property
    def model(self) -> str: ...
    @property
    def revision(self) -> str | None: ...
    @property
    def device(self) -> str | None: ...
    @property
    def threads(self) -> int | None: ...
    @property
    def download(self) -> bool: ...


def load_torch_model(
    kind: str, chosen: TorchModel, *, purpose: str, error: type[ContextEngineError], **options: Any
) -> Any:
    """Load a model; only safetensors weights, and no code that comes with a model.

    Args:
        kind: the library's class, SentenceTransformer or CrossEncoder.
        error: the class of the error if the files are missing.
        options: further arguments of the class.
    Raises:
        MissingExtra: the library is not installed.
        ContextEngineError: of the class given.
    """
    try:
        import sentence_transformers
        import torch
    except ImportError as missing:
        raise MissingExtra(purpose, "embed") from missing
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    folder = as_folder(chosen.model)
    local = folder is not None or not chosen.download
    try:
        with _quiet() if local else nullcontext():
            return getattr(sentence_transformers, kind)(
                str(folder or chosen.model),
                device=chosen.device,
                revision=chosen.revision,
                local_files_only=local,
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True},
                **options,
            )
    except (OSError, ValueError) as problem:
        raise error(how_to_get(chosen.model)) from problem


@contextmanager
def _quiet() -> Iterator[None]:
    """Show no progress bar while weights are read from disk; other code of the process keeps its bars."""
    from transformers.utils import logging

    bars: Any = logging
    if not bars.is_progress_bar_enabled():
        yield
        return
    bars.disable_progress_bar()
    try:
        yield
    finally:
        bars.enable_progress_bar()
