"""A source of an embedded base, as seen by the engine."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from context_engine.adapters.sources.local.base import LocalBase
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace
from context_engine.adapters.sources.stores.pushdown import standing_of
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.core.models import (
    AccessScope,
    Chunk,
    Examination,
    ExaminationRequest,
    FetchRequest,
    Link,
    LinkQuery,
    NoticeCode,
    ScoreKind,
    SourceAnswer,
    SourceQuery,
    SourceSpec,
    notices_about,
)
from context_engine.core.protocols import Source
from context_engine.errors import EmbedderError, SourceError, SourceNotFound, SourceUnavailable, StoreError

_EMBEDDING_SHARE: Final = 0.8
"""Share of the source's time for the embedder; the search by text needs the rest."""
_OF_THE_BASE: Final = (NoticeCode.BASE_OUTDATED, NoticeCode.INDEX_LAG)
"""Notices that an examination repeats: they are of the base, not of the sample query."""
logger = logging.getLogger(__name__)


class LocalSource:
    """Answers from one source of an embedded base; a `Source` that is `Examinable`, `Listable`, `Fetchable` and a
    `GraphStore`.

    Args:
        base: the base, shared by all its sources, or its folder. It need not exist yet.
        spec: its manifest; with it the index answers filters on tier, type, trust and classification.
        place: where its documents belong by the configured rules; searches are refused while any is elsewhere.

    Attributes:
        access_classes: chunks that a caller may not read do not affect its answers (`testing.AccessContract`).
        valid_chunks: its chunks have already passed the engine's validation.
    """

    access_classes: Final = True
    valid_chunks: Final = True

    def __init__(
        self,
        base: LocalBase | Path,
        source_id: str,
        *,
        spec: SourceSpec | None = None,
        place: SourcePlace | None = None,
    ) -> None:
        self.source_id = source_id
        self._base = base if isinstance(base, LocalBase) else LocalBase(base)
        self._spec, self._place = spec, place
        self.score_kinds: frozenset[ScoreKind] = self._base.score_kinds

    def search(self, query: SourceQuery) -> SourceAnswer:
        """Return the best chunks; scores are comparable over all sources of one base.

        If the embedder fails or is late, the answer is that of the text search, with the failure.

        Raises:
            SourceNotFound: the base is missing, or nothing was ever ingested for this source.
            SourceUnavailable: the base is unreadable; the message has the remedy.
            RepartitionRequired: its access rules have changed since its documents were written.
        """
        try:
            return self._answer(query)
        except StoreError as error:
            raise self._as_source_error(error) from error

    def prepare(self, query_text: str, seconds: float) -> None:
        """Load the embedding model before the source's own time begins (`Preparable`)."""
        self._base.prepare(query_text, seconds)

    @property
    def store(self) -> LocalBase:
        """The base: its sources are searched together (`JointlySearchable`)."""
        return self._base

    def search_together(self, sources: Sequence[Source], query: SourceQuery) -> list[SourceAnswer | SourceError]:
        """Return the answer or error of each of some sources of this base, as in `search`.

        Raises:
            StoreError: as in `search`, for any of them.
        """
        own = [source for source in sources if isinstance(source, LocalSource)]
        answers = self._answers(query, [source._scope(query) for source in own])
        return [source._known(answer) for source, answer in zip(own, answers, strict=True)]

    def examine(self, request: ExaminationRequest) -> Examination:
        """Count the documents, unless it must be quick, and run the sample query, if there is one.

        For operators: errors name folders.

        Raises:
            SourceNotFound, SourceUnavailable: as in `search`.
        """
        try:
            answer = None if request.sample is None else self._answer(request.sample)
            documents = None if request.quick else self._documents(request.access)
        except StoreError as error:
            raise self._kind()(str(error), source_id=self.source_id) from error
        failures, notices = (answer.failures, answer.notices) if answer else ((), ())
        return Examination(
            documents=documents,
            records=len(answer.chunks) if answer else None,
            search_method=f"words, {self._base.model_id}" if self._base.model_id else "words",
            problems=notices_about(self.source_id, *(failure.problem for failure in failures)),
            warnings=tuple(note for note in notices if note.code in _OF_THE_BASE),
        )

    def list_chunks(self) -> Iterator[Chunk]:
        """Yield every chunk in one snapshot; none if the base does not have the source.

        Raises:
            StoreError: the base is missing or unreadable.
        """
        return self._base.chunks(self.source_id)

    def fetch(self, request: FetchRequest) -> Sequence[Chunk]:
        """Return the requested chunks in one snapshot, without opening an index.

        Raises:
            SourceNotFound: the base is missing.
            SourceUnavailable: the base is unreadable.
            RepartitionRequired: its access rules have changed since its documents were written.
        """
        try:
            return self._base.fetch(
                self.source_id,
                chunk_ids=request.chunk_ids,
                document_ids=request.document_ids,
                access=request.access,
                place=self._place,
            )
        except StoreError as error:
            raise self._as_source_error(error) from error

    def linked(self, query: LinkQuery) -> Sequence[Link]:
        """Return what chunks lead to (`GraphStore`), scored by words alone if the embedder fails.

        Raises:
            SourceNotFound, SourceUnavailable, RepartitionRequired: as in `search`.
        """
        ask = partial(self._base.linked, query, self._scope(query.query))
        seconds = _EMBEDDING_SHARE * query.query.timeout_s
        try:
            try:
                return ask(embed_within_s=seconds)
            except EmbedderError:
                return ask(embed_within_s=seconds, by_vector=False)
        except StoreError as error:
            raise self._as_source_error(error) from error

    def _documents(self, access: AccessScope | None) -> int:
        size = self._base.held(access).get(self.source_id)
        return size.documents if size else 0

    def _answer(self, query: SourceQuery) -> SourceAnswer:
        (answer,) = self.search_together([self], query)
        if isinstance(answer, SourceError):
            raise answer
        return answer

    def _known(self, answer: SourceAnswer) -> SourceAnswer | SourceError:
        if all(notice.code is not NoticeCode.SOURCE_UNKNOWN for notice in answer.notices):
            return answer
        return SourceNotFound(
            f"nothing was ingested for it into {_shown(self._base.path)}: run 'context-engine ingest PATH'",
            source_id=self.source_id,
        )

    def _answers(self, query: SourceQuery, scopes: Sequence[Scope]) -> list[SourceAnswer]:
        ask = partial(
            self._base.answers,
            query.text,
            top_k=query.top_k,
            scopes=scopes,
            words=query.words,
            expansions=query.expansions,
            embed_within_s=_EMBEDDING_SHARE * query.timeout_s,
        )
        try:
            return ask()
        except EmbedderError as error:
            problem = f"no search by vectors: {error}"
            return [
                replace(answer, failures=(SourceUnavailable(problem, source_id=scope.source_id),))
                for scope, answer in zip(scopes, ask(by_vector=False), strict=True)
            ]

    def close(self) -> None:
        """Close the base's files; a later search, also of its other sources, opens them again."""
        self._base.close()

    def _as_source_error(self, error: StoreError) -> SourceError:
        """Return the error for callers, without the path of the base, which is only logged."""
        logger.warning("source %s: %s", self.source_id, error)
        shown = str(error).replace(str(self._base.path), _shown(self._base.path))
        return self._kind()(shown, source_id=self.source_id)

    def _kind(self) -> type[SourceError]:
        return SourceUnavailable if self._base.exists() else SourceNotFound

    def _scope(self, query: SourceQuery) -> Scope:
        return Scope(
            source_id=self.source_id,
            filters=query.filters,
            as_of=query.as_of,
            constants={"domain": query.domain},
            standing=None if self._spec is None else partial(standing_of, self._spec),
            access=query.access,
            place=self._place,
        )


def _shown(folder: Path) -> str:
    return f"…/{folder.name}"
