"""Models that the library sentence-transformers loads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol

from context_engine.adapters.model_access.folder import as_folder, how_to_get
from context_engine.errors import ContextEngineError, MissingExtra


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
    kind: str, chosen: TorchModel, *, what: str, error: type[ContextEngineError], **options: Any
) -> Any:
    """Load a model; only weights as safetensors, and no code that comes with a model.

    Args:
        kind: the library's class, SentenceTransformer or CrossEncoder.
        chosen: which model.
        what: what the extra is missing for.
        error: the class of the error where the files are not there.
        options: further ones of the class.

    Raises:
        MissingExtra: the library is not installed.
        ContextEngineError: of the class given.
    """
    try:
        import sentence_transformers
        import torch
    except ImportError as missing:
        raise MissingExtra(what, "embed") from missing
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
    """Show no bar while weights are read from the disk: it is over in a moment, and standard error is for messages.

    Other programs of the process may want bars: afterwards they have them again.
    """
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
