"""What the stores in a server share: settings of their sources, vectors of questions, notices, placement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import BoundedSemaphore
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from context_engine.adapters.sources.adapter import SourceContext
from context_engine.adapters.sources.stores.options import SearchOptions, kind_of
from context_engine.adapters.sources.stores.query_vectors import QueryVectors
from context_engine.adapters.sources.stores.question import StoreQuestion
from context_engine.adapters.sources.stores.recall import RecallWatch
from context_engine.adapters.sources.stores.scope import PlacementCheck
from context_engine.adapters.sources.stores.vector_form import shortened
from context_engine.core.models import Examination, Notice, NoticeCode, ScoreKind, SourceSpec, notices_about
from context_engine.core.protocols import Clock, Embedder
from context_engine.errors import ConfigError, SourceBusy, StoreVersionMismatch
from context_engine.settings.messages import config_error

EMBEDDING_SHARE: Final = 0.8
"""Share of the source's time for the embedder; the search needs the rest."""
NOT_TRUSTED: Final = (
    "the server's certificate is not trusted: name the file of its authority as ca_bundle, and the host of base_url as "
    "the certificate does"
)
UNREACHED: Final = "the server cannot be reached: check that it runs, and base_url, ca_bundle and network"
M = TypeVar("M", bound=BaseModel)


def settings_of(spec: SourceSpec, model: type[M]) -> M:
    """Return the settings of a source whose adapter needs a connection.

    Raises:
        ConfigError: no connection, dataset ids, or an unusable setting.
    """
    where = f"sources.{spec.id}"
    if spec.connection is None:
        problem = f"adapter {spec.adapter!r} needs a connection: name one of connections.yaml"
        raise ConfigError(problem, key=f"{where}.connection")
    if spec.dataset_ids:
        raise ConfigError(f"adapter {spec.adapter!r} does not use this key: remove it", key=f"{where}.dataset_ids")
    try:
        return model.model_validate(dict(spec.settings))
    except ValidationError as error:
        first = config_error(error, dict(spec.settings), model, file="")
        key = ".".join(part for part in (where, "settings", first.key) if part)
        raise ConfigError(first.problem, key=key) from None


def embedder_of(context: SourceContext) -> Embedder | None:
    """Return the configured embedder, which makes vectors of the configured length; None if there is none."""
    embedder = context.embedder()
    return None if embedder is None else shortened(embedder, SearchOptions.of(context.settings).vector_dimensions)


@contextmanager
def turn(turns: BoundedSemaphore, timeout_s: float) -> Iterator[None]:
    """Wait for one of the connections of a server, and give it back at the end.

    Raises:
        SourceBusy: all are in use.
    """
    if not turns.acquire(timeout=timeout_s):
        raise SourceBusy("all its connections are in use: ask again, or raise max_connections", retryable=True)
    try:
        yield
    finally:
        turns.release()


def other_model(stored: str | None, configured: str, ingest: str) -> StoreVersionMismatch:
    """Return the error for a store whose vectors another model made.

    Args:
        ingest: the command that writes the store.
    """
    return StoreVersionMismatch(
        f"its vectors were made by {stored!r}, the configured embedder is {configured!r}: configure the former, or "
        f"embed everything again with '{ingest} --repair'"
    )


class ServedStoreBase:
    """The part of a store that does not depend on its server. Safe for many threads.

    Args:
        ingest: the command that writes the store, for messages.
        options: options of search.
        embedder: makes the vectors of questions; None: text search only.
        clock: measures the embedder's time.
    """

    def __init__(self, ingest: str, options: SearchOptions, embedder: Embedder | None, clock: Clock) -> None:
        self.ingest, self.options, self._embedder = ingest, options, embedder
        self._vectors = None if embedder is None else QueryVectors(embedder, clock)
        self._placement = PlacementCheck(f"'{ingest}', which moves the documents")
        self.watch = RecallWatch()

    @property
    def score_kinds(self) -> frozenset[ScoreKind]:
        """The kinds of score its chunks carry."""
        text = frozenset({ScoreKind.BM25})
        return text if self._embedder is None else text | {ScoreKind.COSINE, kind_of(self.options)}

    def prepare(self, query_text: str, seconds: float) -> None:
        """Load the embedding model if it was not used before."""
        if self._vectors is not None:
            self._vectors.prepare(query_text, seconds)

    def _check_model(self, stored: str | None) -> None:
        """Check that the model of the stored vectors, if there are any, is the configured one, if one is.

        Raises:
            StoreVersionMismatch: it is another one.
        """
        if self._embedder is not None and stored not in (None, self._embedder.model_id):
            raise other_model(stored, self._embedder.model_id, self.ingest)

    def _check_analysis(self, stored: str, own: str) -> None:
        """Check that texts were analysed as this program analyses them.

        Raises:
            StoreVersionMismatch: another version has analysed them.
        """
        if stored != own:
            raise StoreVersionMismatch(
                f"its texts were analysed by version {stored}, this program has {own}: '{self.ingest}' analyses them "
                "again"
            )

    def watched_recall(self) -> float | None:
        """Return the lowest mean recall of its access classes (`RecallWatched`)."""
        return self.watch.lowest()

    def _examination(
        self, source_id: str, keys: Sequence[int], copies: Iterable[str], details: Mapping[str, Any], **fields: Any
    ) -> Examination:
        """Return an examination, with the watched recall and what trials have left.

        Args:
            keys: the access classes that the reader may read.
            copies: the copies of the store in its server, each with how it is removed.
            fields: the other fields.
        """
        recall = self.watch.recall(keys)
        low = [self._note(NoticeCode.ANN_RECALL_LOW, source_id, keys)] if any(map(self.watch.is_low, keys)) else []
        left = [f"it has a copy that a trial left, unless one runs now: {copy}" for copy in copies]
        measured = {} if recall is None else {"ann_recall": round(recall, 3)}
        return Examination(warnings=notices_about(source_id, *low, *left), details={**details, **measured}, **fields)

    def _notes(
        self, question: StoreQuestion | None, keys: Sequence[int], *, by_vector: bool, has_vectors: bool
    ) -> list[NoticeCode]:
        """Return the codes of what every source's answer says.

        Args:
            keys: the access classes that the caller may read.
            by_vector: whether the question has a vector.
        """
        codes = []
        if question is not None and question.shortened:
            codes.append(NoticeCode.QUERY_SHORTENED)
        if by_vector and not has_vectors:
            codes.append(NoticeCode.NO_VECTORS)
        elif by_vector and any(map(self.watch.is_low, keys)):
            codes.append(NoticeCode.ANN_RECALL_LOW)
        return codes

    def _note(self, code: NoticeCode, source_id: str, keys: Sequence[int]) -> Notice:
        recall = self.watch.recall(keys) if code is NoticeCode.ANN_RECALL_LOW else None
        return Notice(code, source_id, code.sentence, {} if recall is None else {"recall": round(recall, 3)})
