"""Several collections of judged questions, each by its name: a file of them, or one folder each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from context_engine.core.models import NOBODY, Principal
from context_engine.errors import ConfigError, InvalidRequest
from context_engine.evaluation.session import Session, open_session
from context_engine.settings.files import read_yaml
from context_engine.settings.messages import config_error
from context_engine.wiring import Setup

_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
_QUERIES: Final = ("queries.jsonl", "queries.tsv", "questions.jsonl", "questions.tsv")
_QRELS: Final = ("qrels.tsv", "qrels.jsonl", "qrels.txt", "judgements.jsonl")

Name = Annotated[str, Field(pattern=_NAME)]
"""What a collection is called; a run file is named after it."""


class Collection(BaseModel):
    """Where one collection stands.

    Attributes:
        queries: file of questions; None takes them from the judgements.
        qrels: file of judgements; None takes the answers that stand beside the questions.
        domain: of questions that name none.
        as_of: day of questions that name none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    queries: Path | None = None
    qrels: Path | None = None
    domain: str | None = None
    as_of: date | None = None

    @model_validator(mode="after")
    def _names_a_file(self) -> Self:
        if self.queries is None and self.qrels is None:
            raise ValueError("names neither queries nor qrels: give one of them at least")
        return self


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    collections: Annotated[dict[Name, Collection], Field(min_length=1)]


def relative_to(folder: Path, value: Any) -> Any:
    """Return a collection of a file with its paths as from the file's folder; what is no such thing stays as it is."""
    if not isinstance(value, dict):
        return value
    return {
        key: str(folder / held) if key in ("queries", "qrels") and isinstance(held, str) else held
        for key, held in value.items()
    }


def read_collections(path: Path) -> Mapping[str, Collection]:
    """Return the collections of a YAML or JSON file, in its order; its paths start at its folder.

    Raises:
        ConfigError: the file cannot be read, or a key or value of it cannot be used.
    """
    data = read_yaml(path, str(path))
    held = data.get("collections")
    if isinstance(held, dict):
        data["collections"] = {name: relative_to(path.parent, value) for name, value in held.items()}
    try:
        return _File.model_validate(data).collections
    except ValidationError as error:
        raise config_error(error, data, _File, file=str(path)) from None


def collection_at(text: str) -> tuple[str, Collection]:
    """Return the collection that NAME=PATH names: a folder of questions and judgements, or one file of both.

    Raises:
        InvalidRequest: it is of another form, or there are no questions.
    """
    name, equals, place = text.partition("=")
    if not equals or not place or not re.fullmatch(_NAME, name):
        raise InvalidRequest(
            f"a collection is written NAME=FOLDER, its name of letters, digits, . _ and -, got {text!r}"
        )
    path = Path(place)
    if not path.is_dir():
        return name, Collection(qrels=path)
    queries = next((path / one for one in _QUERIES if (path / one).is_file()), None)
    qrels = next((path / one for one in _QRELS if (path / one).is_file()), None)
    if queries is None and qrels is None:
        raise InvalidRequest(f"collection {name!r}: {path} holds neither {_QUERIES[0]} nor {_QRELS[0]}")
    return name, Collection(queries=queries, qrels=qrels)


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Name the collection in what is wrong with it."""
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
        domain: of questions for which neither they nor their collection name one; `as_of` likewise.

    Raises:
        ConfigError, InvalidRequest: as `open_session`, with the name of the collection.
    """
    sessions = {}
    for name, one in collections.items():
        with naming(name):
            sessions[name] = open_session(
                setup,
                data_dir,
                queries=one.queries,
                qrels=one.qrels,
                domain=one.domain or domain,
                as_of=one.as_of or as_of,
                principal=principal,
            )
    return sessions
