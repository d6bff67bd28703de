"""The gate file: the quality that an installation must keep on its collections of questions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from context_engine.errors import ConfigError, InvalidRequest
from context_engine.evaluation.collections import Collection, Name, relative_to
from context_engine.evaluation.metrics import read_measures
from context_engine.settings.files import read_yaml
from context_engine.settings.messages import config_error

_HEAD: Final = """\
# The quality that this installation must keep: 'context-engine eval gate {name}' checks it, also in CI.
# Edit floors and limits here; 'context-engine eval gate {name} --write' measures the baseline again.
"""
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class GateCollection(Collection):
    """A collection and the least allowed mean of some measures."""

    floors: dict[str, Share] = Field(default_factory=dict)


class GateFile(BaseModel):
    """The conditions that must hold.

    Attributes:
        measures: measures to compare with the baseline.
        baseline: folder of runs; None: only floors are checked.
        allowed_loss: largest allowed loss of a mean against the baseline.
        beyond_noise: whether a loss only counts if the 95 % interval of the paired difference lies below 0.
        same_corpus: whether to refuse a comparison if documents have changed since the baseline.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1]
    measures: Annotated[tuple[str, ...], Field(min_length=1)]
    baseline: Path | None = None
    allowed_loss: Share = 0.0
    beyond_noise: bool = True
    same_corpus: bool = True
    collections: Annotated[dict[Name, GateCollection], Field(min_length=1)]

    @model_validator(mode="after")
    def _tests_something(self) -> Self:
        bare = [
            name for name, collection in self.collections.items() if self.baseline is None and not collection.floors
        ]
        if bare:
            raise ValueError(f"checks nothing in collection {bare[0]!r}: give it floors, or give the file a baseline")
        return self

    @property
    def compared(self) -> tuple[str, ...]:
        """The measures to compare; () without a baseline."""
        return () if self.baseline is None else self.measures

    @property
    def measured(self) -> tuple[str, ...]:
        floors = (measure for collection in self.collections.values() for measure in collection.floors)
        return tuple(dict.fromkeys((*self.compared, *floors)))


def read_gate(path: Path) -> GateFile:
    """Return a gate file, YAML or JSON; its paths are relative to its folder.

    Raises:
        ConfigError: the file cannot be read, or a key or value in it cannot be used.
    """
    data = read_yaml(path, str(path))
    if isinstance(data.get("baseline"), str):
        data["baseline"] = str(path.parent / data["baseline"])
    collections = data.get("collections")
    if isinstance(collections, dict):
        data["collections"] = {name: relative_to(path.parent, value) for name, value in collections.items()}
    return _checked(data, path)


def new_gate(
    path: Path,
    collections: Mapping[str, GateCollection],
    *,
    measures: Sequence[str],
    allowed_loss: float = 0.0,
    beyond_noise: bool = True,
) -> GateFile:
    """Return a new gate for a path, with its baseline in a folder next to it.

    Raises:
        ConfigError: an invalid measure or value.
    """
    data = {
        "version": 1,
        "measures": list(measures),
        "baseline": str(path.with_name(f"{path.stem}.runs")),
        "allowed_loss": allowed_loss,
        "beyond_noise": beyond_noise,
        "collections": {name: collection.model_dump(exclude_none=True) for name, collection in collections.items()},
    }
    return _checked(data, path)


def _checked(data: dict[str, Any], path: Path) -> GateFile:
    """Return a validated gate whose measures have the names of ir_measures."""
    try:
        gate = GateFile.model_validate(data)
    except ValidationError as error:
        errors = config_error(error, data, GateFile, file=str(path)).each
        if len(errors) == 1:
            raise errors[0] from None
        raise ConfigError("; ".join(f"{fault.key}: {fault.problem}" for fault in errors), file=str(path)) from None
    return gate.model_copy(
        update={
            "measures": _measures(gate.measures, path),
            "collections": {
                name: gate_collection.model_copy(
                    update={
                        "floors": dict(zip(_measures(gate_collection.floors, path), gate_collection.floors.values()))
                    }
                )
                for name, gate_collection in gate.collections.items()
            },
        }
    )


def _measures(names: Iterable[str], path: Path) -> tuple[str, ...]:
    try:
        measures = read_measures(list(names))
    except InvalidRequest as error:
        raise ConfigError(str(error), file=str(path)) from None
    of_sets = [name for name in measures if name.startswith("Set")]
    if of_sets:
        problem = f"measure {of_sets[0]} needs the chunks read, which a run file lacks: use one with a depth, e.g. R@10"
        raise ConfigError(problem, file=str(path))
    return measures


def gate_text(path: Path, gate: GateFile) -> str:
    """Return the text of a gate file for a path: commented YAML, with paths relative to its folder."""
    data = gate.model_dump(mode="json", exclude_none=True)
    data["baseline"] = _from(path.parent, gate.baseline)
    for name, collection in gate.collections.items():
        paths = {"queries": _from(path.parent, collection.queries), "qrels": _from(path.parent, collection.qrels)}
        data["collections"][name] |= {key: value for key, value in paths.items() if value is not None}
    for collection in data["collections"].values():
        if not collection["floors"]:
            del collection["floors"]
    return _HEAD.format(name=path.name) + yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def _from(folder: Path, path: Path | None) -> str | None:
    return None if path is None else Path(os.path.relpath(path, folder)).as_posix()
