"""Requests to the engine and to a source, the question as it was understood, and the answer of a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from typing import Any, Final, NamedTuple

from context_engine.core.models.access import NOBODY, AccessScope, Principal
from context_engine.core.models.chunk import Chunk
from context_engine.core.models.enums import TIERS
from context_engine.core.models.filters import And, Condition, Filter, Not, Or
from context_engine.core.models.learnt import ScopeCalibration, TermStatistics, VectorAdapter
from context_engine.core.models.notice import Notice, NoticeCode, messages
from context_engine.errors import InvalidFilter, InvalidRequest, SourceError


class Expansion(NamedTuple):
    """Other words for a term of the query.

    Attributes:
        term: as written in the query; "" if it belongs to the whole query.
        text: the other name.
        weight: weight of a match relative to one of the user's own words, (0, 1].
        by: its origin: glossary, spelling or refiner.
    """

    term: str
    text: str
    weight: float
    by: str = "glossary"


class Refinement(NamedTuple):
    """What a refiner makes of a question.

    Attributes:
        text: the question in words that are easier to find; "" for none.
        concepts: its topics, most specific first.
    """

    text: str
    concepts: tuple[str, ...] = ()


class UnknownWord(NamedTuple):
    """A word of a query that a source holds nowhere.

    Attributes:
        word: as written in the query.
        suggestion: the nearest word in the source; "" if none is near.
    """

    word: str
    suggestion: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedQuery:
    """The query as asked and as searched.

    It only adds: `text` holds every word and code of `original`, but for misspelt words where it is `corrected`.

    Attributes:
        original: as the user wrote it.
        text: cleaned; what every source is asked.
        words: the text with Chinese, Japanese and Korean cut into words by spaces, as search terms are taken from it;
            None if it is the text itself.
        language: ISO 639-1 code, "und" where the text shows none.
        codes: identifiers and named instruments (`NPA-001`, `MAS Notice 637`).
        references: section numbers (`4.2.1(b)`).
        phrases: quoted phrases of two words or more.
        expansions: other words, which count less than the user's own.
        sub_queries: parts or other wordings of the question that are searched for beside it.
        concepts: the topics of the question, from a refiner.
        suggestions: likely spellings, (as written, as the glossary or the texts have it).
        corrected: the suggestions are in `text` instead of what was written, for which nothing was found; else they
            are offered only.
        notices: what was done, or could not be, for a reader.
        refiner: name of the refiner that was asked, None for none.
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
    suggestions: tuple[tuple[str, str], ...] = ()
    corrected: bool = False
    notices: tuple[Notice, ...] = ()
    refiner: str | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """The sentences of the notices."""
        return messages(self.notices)

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        published = ("notes" if field.name == "notices" else field.name for field in fields(self))
        return {
            **{name: getattr(self, name) for name in published},
            "expansions": [expansion._asdict() for expansion in self.expansions],
            "suggestions": [{"written": written, "known_as": known} for written, known in self.suggestions],
        }


MAX_QUERY_CHARS: Final = 10_000
MAX_TOP_K: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks, as opaque identifiers; kept for the record, never interpreted.

    Attributes:
        principal: the authenticated caller.
        on_behalf_of: for whom, as the principal says.
    """

    principal: str | None = None
    app: str | None = None
    conversation: str | None = None
    message: str | None = None
    on_behalf_of: str | None = None


def checked_query(query: Any) -> str:
    """Return the query if it is text that can be searched for.

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
        caller: a description of the program that asks; it grants nothing.
        principal: the authenticated caller, whose rights decide what may be searched.
        request_id: the caller's own id for this call.
        as_of: the day the answer must be true for; None is today in the domain's time zone.
        filters: conditions every returned chunk keeps.
        persona: name of a profile of settings.
        overrides: settings for this call alone; keys of `SearchSettings`.
        top_k: most chunks returned, 1 to 1000; None: the setting `stage2_top_k`.
        require_tiers, require_sources: without a chunk from each the decision is `incomplete`.
        strict: raise `EvidenceIncomplete` instead.

    Raises:
        InvalidRequest: a field that cannot be used.
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
        """The settings for this call alone: `overrides`, and `top_k` under its name among the settings."""
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
                    f"top_k is {self.top_k}, and {name} in overrides is {self.overrides[name]}: give one of the two"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceQuery:
    """What the engine searches one source for.

    Attributes:
        text: the query.
        words: the query split into words by spaces, for a source that searches by terms; None if equal to `text`.
        expansions: other words for it, to be searched for as well with their weights where the source can.
        top_k: most chunks wanted; a longer answer is cut.
        filters, as_of: to be pushed down where the source can; the engine checks them again.
        timeout_s: seconds the engine will wait.
        access: which classes of chunks the caller may read; None: all. Chunks above them are taken out by the engine;
            a source that heeds them in all that it says, so that nothing else tells of those chunks, sets
            `access_classes = True`: only then its statistics, unknown words and calibration count for every caller.
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
    """Which chunks of one source are wanted, without a question.

    Attributes:
        chunk_ids: the wanted ids; unknown ones are left out of the answer.
        document_ids: and all chunks of these documents.
        access: which classes of chunks the caller may read; None: all.
        timeout_s: seconds the caller will wait.
    """

    domain: str
    chunk_ids: tuple[str, ...] = ()
    document_ids: tuple[str, ...] = ()
    access: AccessScope | None = None
    timeout_s: float = 10.0


class QueryEmbedding(NamedTuple):
    """The vector that a source made of a query.

    Attributes:
        model: what made it.
        elapsed_ms: how long that took, >= 0; next to nothing where the vector was still known.
        adapter: what it was compared under, which the caller may read; None: as the model made it. It is for the search
            itself: no result keeps it.
    """

    model: str
    elapsed_ms: float
    adapter: VectorAdapter | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAnswer:
    """A source's answer: chunks, best first, with notices about them.

    Attributes:
        notes: notices, the source as their subject; a text becomes a notice of code `source_note`.
        retrieved_at: when the source answered, aware; None means now.
        cut: chunks past top_k that the source itself left out.
        failures: what a source of several parts could not get, one error a part; the chunks are what the others gave.
        by_keywords: it was found by a few keywords of each chunk alone: that nothing relevant came says little.
        statistics: how common the question's terms are in the collection searched; None if that is not known: the
            engine counts in the candidates instead.
        unknown_words: words of the query that occur in no readable text of the source, each with a suggestion
            (`query.spelling.words_to_check` chooses the words); None if the source does not check.
        filter_fields: the fields that a filter can name, where the query has one; None if they are not known, or
            where only what the caller may not read may have some of them: they are listed to whoever misspells one.
        calibration: the base's calibration for this domain, or None.
        embedding: the query vector of the search; None without one, or if a server made it.
            Neither compared nor shown.
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
