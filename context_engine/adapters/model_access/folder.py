"""Where the files of a model lie: a folder, or a name in the local cache of the Hugging Face hub."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Final

_EDGE: Final = 1 << 20
_SMALL: Final = ("config.json", "tokenizer.json", "modules.json", "1_Pooling/config.json")
_WEIGHTS: Final = ("model.safetensors", "model.onnx", "onnx/model.onnx", "pytorch_model.bin")


def as_folder(model: str) -> Path | None:
    """Return the folder a model's name stands for, None where it is a name of the hub ("owner/model").

    A name that begins with / ./ ../ or ~ is a path, whether or not it is there.
    """
    path = Path(model).expanduser()
    return path if path.is_dir() or model.startswith(("/", "./", "../", "~")) else None


def model_name(model: str, revision: str | None = None) -> str:
    """Return a name that two models share only if their vectors are comparable.

    A hub's name with its revision; for a folder its name and a hash of its small files, the sizes of the weights and
    their first and last MiB.
    """
    folder = as_folder(model)
    if folder is None:
        return f"{model}@{revision}" if revision else model
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
    """Return the sentence that says how the files of a model come onto this machine."""
    if as_folder(model) is not None:
        return f"there is no model in {model}: give the folder that holds its config.json and weights"
    return (
        f"the files of {model} are not on this machine, and nothing is downloaded: where there is a network, run "
        f"'hf download {model} --local-dir FOLDER', bring FOLDER here and name it as model; or set download: true"
    )
