"""Several collections of judged questions, each by its name: a file of them, or one folder each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from context_engine.core.models import NOBODY, Principal
from context_engine.errors import ConfigError, InvalidRequest
from context_engine.evaluation.evaluate import SCHEMA_VERSION, Compared, evaluate, primary_of, summary
from context_engine.evaluation.metrics import Paired, read_measures
from context_engine.evaluation.run import Progress
from context_engine.evaluation.session import Session, open_session
from context_engine.evaluation.variant import Variant
from context_engine.settings.files import read_yaml
from context_engine.settings.messages import config_error
from context_engine.wiring.setup import Setup

_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
_QUERIES: Final = ("queries.jsonl", "queries.tsv", "questions.jsonl", "questions.tsv")
_QRELS: Final = ("qrels.tsv", "qrels.jsonl", "qrels.txt", "judgements.jsonl")
Name = Annotated[str, Field(pattern=_NAME)]
"""The name of a collection and of its run file."""


class Collection(BaseModel):
    """The files of one collection.

    Attributes:
        queries: file of questions; None takes them from the judgements.
        qrels: file of judgements; None takes the answers given with the questions.
        domain, as_of: defaults for questions that name none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    queries: Path | None = None
    qrels: Path | None = None
    domain: str | None = None
    as_of: date | None = None

    @model_validator(mode="after")
    def _names_a_file(self) -> Self:
        if self.queries is None and self.qrels is None:
            raise ValueError("names neither queries nor qrels: give at least one of them")
        return self


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    collections: Annotated[dict[Name, Collection], Field(min_length=1)]


def relative_to(folder: Path, value: Any) -> Any:
    """Return a collection from a file, with paths relative to the file's folder; other values are unchanged."""
    if not isinstance(value, dict):
        return value
    return {
        key: str(folder / entry) if key in ("queries", "qrels") and isinstance(entry, str) else entry
        for key, entry in value.items()
    }


def read_collections(path: Path) -> Mapping[str, Collection]:
    """Return the collections of a YAML or JSON file, in its order; its paths are relative to its folder.

    Raises:
        ConfigError: the file cannot be read, or has an invalid key or value.
    """
    data = read_yaml(path, str(path))
    collections = data.get("collections")
    if isinstance(collections, dict):
        data["collections"] = {name: relative_to(path.parent, value) for name, value in collections.items()}
    try:
        return _File.model_validate(data).collections
    except ValidationError as error:
        raise config_error(error, data, _File, file=str(path)) from None


def collection_at(text: str) -> tuple[str, Collection]:
    """Parse NAME=PATH: a folder of questions and judgements, or one file of both.

    Raises:
        InvalidRequest: the text has another form, or the folder holds no questions.
    """
    name, equals, place = text.partition("=")
    if not equals or not place or not re.fullmatch(_NAME, name):
        raise InvalidRequest(
            f"a collection is written NAME=FOLDER, its name of letters, digits, . _ and -, got {text!r}"
        )
    path = Path(place)
    if not path.is_dir():
        return name, Collection(qrels=path)
    queries = next((path / file_name for file_name in _QUERIES if (path / file_name).is_file()), None)
    qrels = next((path / file_name for file_name in _QRELS if (path / file_name).is_file()), None)
    if queries is None and qrels is None:
        raise InvalidRequest(f"collection {name!r}: {path} holds neither {_QUERIES[0]} nor {_QRELS[0]}")
    return name, Collection(queries=queries, qrels=qrels)


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Add the collection's name to errors raised inside."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{error.problem} (collection {name!r})", file=error.file, key=error.key) from error
    except InvalidRequest as error:
        raise InvalidRequest(f"collection {name!r}: {error}") from error


def open_collections(
    setup: Setup,
    data_dir: Path,
    collections: Mapping[str, Collection],
    *,
    domain: str | None = None,
    as_of: date | None = None,
    principal: Principal = NOBODY,
) -> dict[str, Session]:
    """Return the session of each collection; see `open_session`.

    Args:
        domain, as_of: defaults for questions and collections that name none.

    Raises:
        ConfigError, InvalidRequest: see `open_session`; the message names the collection.
    """
    sessions = {}
    for name, collection in collections.items():
        with naming(name):
            sessions[name] = open_session(
                setup,
                data_dir,
                queries=collection.queries,
                qrels=collection.qrels,
                domain=collection.domain or domain,
                as_of=collection.as_of or as_of,
                principal=principal,
            )
    return sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """The results of several collections, with the same set-up and measures.

    Attributes:
        compared: results by collection name.
        primary: the measure that decides whether a collection is better or worse.
    """

    compared: Mapping[str, Compared]
    measures: tuple[str, ...]
    primary: str

    @property
    def has_baseline(self) -> bool:
        """Whether each collection has a baseline."""
        return all(result.baseline is not None for result in self.compared.values())

    @property
    def title(self) -> str:
        """The set-up, and its baseline: "as configured against authority_weight=0"."""
        ours = next(iter(self.compared.values())).ours.name
        others = {result.baseline.name for result in self.compared.values() if result.baseline is not None}
        return f"{ours} against {others.pop() if len(others) == 1 else 'their runs'}" if others else ours

    @property
    def questions(self) -> int:
        """The number of judged questions in all collections."""
        return sum(len(result.session.qrels) for result in self.compared.values())

    def against(self, name: str, measure: str) -> Paired | None:
        """Return a collection's paired difference from its baseline; None without one."""
        result = self.compared[name]
        return None if result.baseline is None else result.ours.against(result.baseline, measure)

    def mean(self, measure: str, *, baseline: bool = False) -> float:
        """Return the mean of the collections' means; every collection has the same weight."""
        results = [result.baseline if baseline else result.ours for result in self.compared.values()]
        return sum(result.mean(measure) for result in results if result is not None) / len(results)


def evaluate_each(
    sessions: Mapping[str, Session],
    variant: Variant,
    *,
    baseline: Variant | Path | None = None,
    measures: Sequence[str],
    top_k: int | None = None,
    by: Sequence[str] = (),
    progress: Progress | None = None,
) -> Collected:
    """Return the evaluation of each collection; see `evaluate`.

    Args:
        baseline: another set-up, or a folder of runs.

    Raises:
        InvalidRequest, ConfigError: see `evaluate`; the message names the collection.
    """
    names, compared = read_measures(measures), {}
    others = {name: existing_run(baseline, name) if isinstance(baseline, Path) else baseline for name in sessions}
    for name, session in sessions.items():
        with naming(name):
            compared[name] = evaluate(
                session,
                variant,
                baseline=others[name],
                measures=names,
                top_k=top_k,
                by=by,
                progress=_named(progress, name),
            )
    return Collected(compared=compared, measures=names, primary=primary_of(names))


def _named(progress: Progress | None, name: str) -> Progress | None:
    return None if progress is None else lambda done, count, question: progress(done, count, f"{name}: {question}")


def run_file(folder: Path, name: str) -> Path:
    """Return the path of a collection's run in a folder of runs.

    >>> run_file(Path("runs"), "faq").as_posix()
    'runs/faq.run'
    """
    return folder / f"{name}.run"


def existing_run(folder: Path, name: str) -> Path:
    """Return a collection's run in a folder of runs.

    Raises:
        ConfigError: it does not exist.
    """
    path = run_file(folder, name)
    if not path.is_file():
        raise ConfigError("does not exist: a folder of runs holds NAME.run for each collection", file=str(path))
    return path


def verdict_of(pair: Paired) -> str:
    """Return "better" or "worse" if a paired difference is beyond noise, else "no difference"."""
    if not pair.beyond_noise:
        return "no difference"
    return "better" if pair.mean > 0 else "worse"


def collected_summary(collected: Collected) -> dict[str, Any]:
    """Return all collections as JSON values: each as in `summary`, means over them, and verdicts."""
    verdicts = {
        name: {
            measure: verdict_of(pair) for measure in collected.measures if (pair := collected.against(name, measure))
        }
        for name in collected.compared
    }
    means = {measure: {"mean": collected.mean(measure)} for measure in collected.measures}
    if collected.has_baseline:
        for measure, row in means.items():
            row["baseline"] = collected.mean(measure, baseline=True)
            row["difference"] = row["mean"] - row["baseline"]
    return {
        "schema_version": SCHEMA_VERSION,
        "judged": collected.questions,
        "primary": collected.primary,
        "mean_of_collections": means,
        "verdicts": verdicts if collected.has_baseline else None,
        "collections": {name: summary(result) for name, result in collected.compared.items()},
    }
