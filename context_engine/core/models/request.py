"""Requests to the engine and to a source, the prepared question, and the answer of a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from typing import Any, Final, NamedTuple

from context_engine.core.models.access import NOBODY, AccessScope, Principal
from context_engine.core.models.chunk import TIERS, Chunk
from context_engine.core.models.filters import And, Condition, Filter, Not, Or
from context_engine.core.models.learnt import ScopeCalibration, TermStatistics, VectorAdapter
from context_engine.core.models.notice import Notice, NoticeCode, messages
from context_engine.errors import InvalidFilter, InvalidRequest, SourceError


class Expansion(NamedTuple):
    """Other words for a term of the query.

    Attributes:
        term: as written in the query; "" if it belongs to the whole query.
        text: the other name.
        weight: weight of a match relative to a match of the user's own word, (0, 1].
        by: its origin: "glossary", "spelling", "synonym" or "refiner".
    """

    term: str
    text: str
    weight: float
    by: str = "glossary"


class Refinement(NamedTuple):
    """A refiner's answer.

    Attributes:
        text: the question in words that are easier to find; "" if it has none.
        concepts: the question's topics, most specific first.
        translations: the question in the languages of the documents.
    """

    text: str
    concepts: tuple[str, ...] = ()
    translations: tuple[str, ...] = ()


class UnknownWord(NamedTuple):
    """A word of a query that occurs nowhere in a source.

    Attributes:
        word: as written in the query.
        suggestion: the nearest word in the source; "" if none is near.
    """

    word: str
    suggestion: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedQuery:
    """The query as the user wrote it and as it is searched.

    `text` contains every word and code of `original`, except misspelt words if `corrected` is true.

    Attributes:
        original: the query as the user wrote it.
        text: the cleaned query, as sent to every source.
        words: the text with Chinese, Japanese and Korean words separated by spaces, from which search terms are taken;
            None if equal to `text`.
        language: ISO 639-1 code; "und" if undetermined.
        codes: identifiers and named instruments (`NPA-001`, `MAS Notice 637`).
        references: section numbers (`4.2.1(b)`).
        phrases: quoted phrases of two words or more.
        expansions: other words for its terms.
        sub_queries: parts and other wordings of the question that are searched too.
        concepts: the topics of the question, named by a refiner.
        translations: the question in other languages; each is searched as well as the question itself.
        suggestions: likely corrections: (word as written, word as in the glossary or the texts).
        corrected: whether `text` contains the suggestions instead of the words as written, because those found nothing;
            otherwise the suggestions are only offered.
        notices: how the query was changed, and what failed.
        refiner: name of the refiner that was called, or None.
    """

    original: str
    text: str
    words: str | None = None
    language: str = "und"
    codes: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    expansions: tuple[Expansion, ...] = ()
    sub_queries: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()
    translations: tuple[str, ...] = ()
    suggestions: tuple[tuple[str, str], ...] = ()
    corrected: bool = False
    notices: tuple[Notice, ...] = ()
    refiner: str | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """The sentences of the notices."""
        return messages(self.notices)

    def to_dict(self) -> dict[str, Any]:
        """Return the published form; it has translations only if there are any."""
        published = ("notes" if field.name == "notices" else field.name for field in fields(self))
        return {
            **{name: getattr(self, name) for name in published if name != "translations" or self.translations},
            "expansions": [expansion._asdict() for expansion in self.expansions],
            "suggestions": [{"written": written, "known_as": known} for written, known in self.suggestions],
        }


MAX_QUERY_CHARS: Final = 10_000
MAX_TOP_K: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Opaque identifiers of the calling program; recorded, never interpreted.

    Attributes:
        principal: the authenticated caller.
        on_behalf_of: the person it calls for, as the principal reports.
    """

    principal: str | None = None
    app: str | None = None
    conversation: str | None = None
    message: str | None = None
    on_behalf_of: str | None = None


def checked_query(query: Any) -> str:
    """Return the query if it is valid.

    Raises:
        InvalidRequest: not a string, empty, only white space, binary, or over 10 000 characters.
    """
    if not isinstance(query, str):
        raise InvalidRequest(f"query must be text, got {type(query).__name__}")
    if not query.strip():
        raise InvalidRequest("query is empty: ask a question in words")
    if len(query) > MAX_QUERY_CHARS:
        raise InvalidRequest(f"query has {len(query)} characters, at most {MAX_QUERY_CHARS} are allowed: shorten it")
    if "\x00" in query or any("\ud800" <= char <= "\udfff" for char in query):
        raise InvalidRequest("query holds binary data (NUL or lone surrogates): send UTF-8 text")
    return query


def checked_top_k(value: Any, name: str) -> int:
    """Return a top_k if it is an int from 1 to 1000.

    Raises:
        InvalidRequest: a bool, a float, a string or a number out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequest(f"{name} must be a whole number from 1 to {MAX_TOP_K}, got {value!r}")
    if not 1 <= value <= MAX_TOP_K:
        raise InvalidRequest(f"{name} must be from 1 to {MAX_TOP_K}, got {value}")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A question for one domain.

    Attributes:
        query: 1 to 10 000 characters, not only white space.
        domain: a registered domain.
        caller: a description of the calling program; it grants no rights.
        principal: the authenticated caller, whose rights decide what may be searched.
        request_id: the caller's own id for this call.
        as_of: the day for which the answer must hold; None: today in the domain's time zone.
        filters: conditions that every returned chunk meets.
        persona: name of a profile of settings.
        overrides: settings for this call only; keys of `SearchSettings`.
        top_k: most chunks returned, 1 to 1000; None: the setting `stage2_top_k`.
        require_tiers, require_sources: the decision is `incomplete` unless each of these returned a chunk.
        strict: raise `EvidenceIncomplete` instead.
        part_of: the first search of the workflow that also makes this one, or the job that asks each of its documents;
            None: a question of its own. For the record.

    Raises:
        InvalidRequest: an invalid field.
        InvalidFilter: `filters` is not a Filter.
    """

    query: str
    domain: str
    caller: Caller = field(default_factory=Caller)
    principal: Principal = NOBODY
    request_id: str | None = None
    as_of: date | None = None
    filters: Filter | None = None
    persona: str | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    top_k: int | None = None
    require_tiers: tuple[int, ...] = ()
    require_sources: tuple[str, ...] = ()
    strict: bool = False
    part_of: str | None = None

    def __post_init__(self) -> None:
        checked_query(self.query)
        if not isinstance(self.domain, str) or not self.domain.strip():
            raise InvalidRequest("domain is empty: name a registered domain")
        if not isinstance(self.principal, Principal):
            raise InvalidRequest(f"principal takes a Principal, got {type(self.principal).__name__}")
        self._check_top_k()
        for tier in self.require_tiers:
            if isinstance(tier, bool) or tier not in TIERS:
                raise InvalidRequest(f"require_tiers takes tiers 1 to 5, got {tier!r}")
        if self.as_of is not None and (isinstance(self.as_of, datetime) or not isinstance(self.as_of, date)):
            raise InvalidRequest(f"as_of takes a date, e.g. date(2025, 6, 30), got {self.as_of!r}")
        if self.filters is not None and not isinstance(self.filters, Condition | And | Or | Not):
            raise InvalidFilter(
                f"filters takes a Filter, got {type(self.filters).__name__}: read other forms with parse_filter"
            )
        if isinstance(self.require_sources, str):
            raise InvalidRequest(f"require_sources takes a tuple of ids, got {self.require_sources!r}")

    @property
    def call_settings(self) -> Mapping[str, Any]:
        """The settings for this call only: `overrides`, and `top_k` as `stage2_top_k`."""
        if self.top_k is None:
            return self.overrides
        return {**{key: value for key, value in self.overrides.items() if key != "top_k"}, "stage2_top_k": self.top_k}

    def _check_top_k(self) -> None:
        for name in ("stage1_top_k", "stage2_top_k"):
            if name in self.overrides:
                checked_top_k(self.overrides[name], name)
        if self.top_k is None:
            return
        checked_top_k(self.top_k, "top_k")
        for name in ("stage2_top_k", "top_k"):
            if self.overrides.get(name, self.top_k) != self.top_k:
                raise InvalidRequest(
                    f"top_k is {self.top_k}, and {name} in overrides is {self.overrides[name]}: give only one of them"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceQuery:
    """A search of one source, as requested by the engine.

    Attributes:
        text: the query.
        words: the query with words separated by spaces, for a source that searches by terms; None if equal to `text`.
        expansions: other words for its terms, searched with their weights if the source can.
        top_k: most chunks wanted; a longer answer is cut.
        filters, as_of: applied by the source if it can; the engine checks them again.
        timeout_s: seconds the engine waits.
        access: which classes of chunks the caller may read; None: all. The engine removes other chunks. A source that
            restricts its whole answer to these classes, so that nothing in it reveals other chunks, sets
            `access_classes = True`. Only then are its statistics, unknown words and calibration used for every caller.
    """

    text: str
    domain: str
    top_k: int
    words: str | None = None
    expansions: tuple[Expansion, ...] = ()
    filters: Filter | None = None
    as_of: date | None = None
    timeout_s: float = 10.0
    search_id: str = ""
    caller: Caller = field(default_factory=Caller)
    access: AccessScope | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """A request for chunks of one source by id, without a question.

    Attributes:
        chunk_ids: the requested ids; the answer omits unknown ones.
        document_ids: all chunks of these documents are requested too.
        access: which classes of chunks the caller may read; None: all.
        timeout_s: seconds the caller waits.
    """

    domain: str
    chunk_ids: tuple[str, ...] = ()
    document_ids: tuple[str, ...] = ()
    access: AccessScope | None = None
    timeout_s: float = 10.0


class QueryEmbedding(NamedTuple):
    """The embedding of a query that a source made.

    Attributes:
        model: the model that made it.
        elapsed_ms: time taken, >= 0; almost 0 if the vector was cached.
        adapter: the adapter it was compared under, which the caller may read; None: without one. Used during the search
            only: no result keeps it.
    """

    model: str
    elapsed_ms: float
    adapter: VectorAdapter | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAnswer:
    """A source's answer: chunks, best first, with notices about them.

    Attributes:
        notes: notices about the source; a text becomes a notice of code `source_note`.
        retrieved_at: when the source answered, timezone-aware; None means now.
        cut: the number of chunks beyond top_k that the source left out.
        failures: one error for each failed part of a source with several parts; the chunks come from the other parts.
        by_keywords: whether the source searched only a few keywords of each chunk: an empty answer proves little.
        statistics: how common the question's terms are in the searched collection; None if unknown: the engine then
            counts in the candidates.
        unknown_words: words of the query that occur in no readable text of the source, each with a suggestion
            (`query.spelling.words_to_check` chooses the words); None if the source does not check.
        filter_fields: the fields that a filter can name, if the query has one; None if unknown, or if some may occur
            only in chunks the caller may not read: a notice lists the fields when one is misspelt.
        calibration: the base's calibration for this domain, or None.
        embedding: the query's embedding; None without one, or if a server made it. Neither compared nor shown.
    """

    chunks: Sequence[Chunk] = ()
    notes: tuple[str | Notice, ...] = ()
    retrieved_at: datetime | None = None
    cut: int = 0
    failures: tuple[SourceError, ...] = ()
    by_keywords: bool = False
    statistics: TermStatistics | None = None
    unknown_words: tuple[UnknownWord, ...] | None = None
    filter_fields: tuple[str, ...] | None = None
    calibration: ScopeCalibration | None = None
    embedding: QueryEmbedding | None = field(default=None, compare=False, repr=False)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """The notes, each text as a notice of code `source_note`."""
        return tuple(
            note if isinstance(note, Notice) else Notice(NoticeCode.SOURCE_NOTE, "", note) for note in self.notes
        )
