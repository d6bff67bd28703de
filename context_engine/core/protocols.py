"""What the core expects of the outside world. An adapter implements one of these; the core never imports an adapter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol, runtime_checkable

from context_engine.core.models import (
    AccessDecision,
    AccessRecord,
    Authenticated,
    Chunk,
    Context,
    DomainSpec,
    Examination,
    ExaminationRequest,
    FetchRequest,
    Principal,
    Refinement,
    ScoreKind,
    SearchRequest,
    SearchResult,
    SourceAnswer,
    SourceQuery,
    VectorAdapter,
)
from context_engine.errors import SourceError


@runtime_checkable
class Source(Protocol):
    """A knowledge base that can be searched. Safe for several threads at once.

    Attributes:
        source_id: the id of the manifest's source.
        score_kinds: the kinds of score its chunks may carry; a call with a threshold on another is refused.
    """

    source_id: str
    score_kinds: frozenset[ScoreKind]

    def search(self, query: SourceQuery) -> SourceAnswer:
        """Return at most `query.top_k` chunks, best first.

        Raises:
            SourceError: the source could not answer; an empty answer is not an error.
        """
        ...

    def close(self) -> None:
        """Release connections and files; may be called twice."""
        ...


@runtime_checkable
class JointlySearchable(Protocol):
    """A source that can be searched with others for less than each by itself costs; optional.

    Attributes:
        store: what holds it: sources whose `store` is one object may be searched together.
    """

    @property
    def store(self) -> object: ...

    def search_together(self, sources: Sequence[Source], query: SourceQuery) -> Sequence[SourceAnswer | SourceError]:
        """Return for each source, in order, what its own `search` returns or raises.

        Args:
            sources: of this one's `store`, this one among them.
            query: the same for all of them.

        Raises:
            Exception: of any kind: each is then searched by itself.
        """
        ...


@runtime_checkable
class Preparable(Protocol):
    """A source whose first answer waits for what later ones do not, such as a model that is loaded; optional."""

    def prepare(self, query_text: str, seconds: float) -> None:
        """Load what is not loaded yet; called before each search, and to return at once when all is there.

        Its time counts against the search's deadline and not against the source's own time limit.

        Args:
            query_text: what will be searched for.
            seconds: until it must have returned.

        Raises:
            Exception: of any kind: the source is searched all the same.
        """
        ...


@runtime_checkable
class Examinable(Protocol):
    """A source that can say whether it can be searched and what it holds; optional.

    A source without it is tried with a sample query alone.
    """

    def examine(self, request: ExaminationRequest) -> Examination:
        """Return what was found out within `request.timeout_s`; what is wrong is a problem in it.

        Raises:
            SourceError, ConfigError: nothing could be found out.
        """
        ...


@runtime_checkable
class Listable(Protocol):
    """A source that can list what it holds; optional.

    With it an evaluation can tell that a judged document is not there at all, and count the tokens of the whole.
    """

    def list_chunks(self) -> Iterator[Chunk]:
        """Yield every chunk once, with the id, document and text that a search gives it; nothing where there is none.

        Raises:
            SourceError, StoreError: they cannot be listed.
        """
        ...


@runtime_checkable
class Fetchable(Protocol):
    """A source that can give chunks by their ids; optional. Without it nobody can tell whether a chunk has changed."""

    def fetch(self, request: FetchRequest) -> Sequence[Chunk]:
        """Return the chunks there are of those asked for, each once, in any order, with the ids a search gives them.

        What `request.access` does not admit is as if it were not there.

        Raises:
            SourceError: they could not be fetched now; nothing found is not an error.
        """
        ...


@runtime_checkable
class Sink(Protocol):
    """Where documents are written; for one thread. A document is (source_id, document_id, version); "" is "no version".

    An adapter that can be written to opens one for the sources of a domain (`source_adapter(open_sink=...)`).
    """

    def put(self, source_id: str, document_id: str, version: str, content_hash: str, chunks: Sequence[Chunk]) -> bool:
        """Write a document, replacing what it held; return False, writing nothing, if `content_hash` is unchanged."""
        ...

    def delete(self, source_id: str, document_id: str, version: str) -> bool:
        """Remove a document; return whether it was there."""
        ...

    def documents(self, source_id: str) -> Mapping[tuple[str, str], str]:
        """Return {(document_id, version): content_hash} of what the source holds."""
        ...

    def commit(self) -> None:
        """Make everything written so far durable and searchable. What was not committed may be lost, never torn."""
        ...


class SinkReport(NamedTuple):
    """What a sink says of a run beyond the counts of documents and chunks.

    Attributes:
        place: where it wrote, for people.
        outcome: what was accepted, in one sentence; "" where the counts say all.
        advice: what the user should do or decide; all of it is shown.
        remarks: what should be known of single documents; of many only the first are shown.
        problems: documents that are not there as they were written; the run does not count as good with any.
        published: stands in the JSON report under the adapter's name; None: nothing does.
    """

    place: str
    outcome: str = ""
    advice: Sequence[str] = ()
    remarks: Sequence[str] = ()
    problems: Sequence[str] = ()
    published: Mapping[str, Any] | None = None


@runtime_checkable
class FileTrackingSink(Sink, Protocol):
    """A sink that knows which file a document came from; optional. A file that cannot be read protects its own then."""

    def file_of(self, source_id: str, document_id: str, version: str) -> str | None:
        """Return the path, below the folder that was ingested, of the file that a held document came from.

        It stands in the metadata of its chunks as `source_file`; None where it is not known.
        """
        ...


@runtime_checkable
class ReportingSink(Sink, Protocol):
    """A sink that has more to say of a run; optional."""

    def report(self, written: int) -> SinkReport:
        """Return what it has to say at the end of a run.

        Args:
            written: documents that were new or had changed, those of a dry run too.
        """
        ...


@runtime_checkable
class Reranker(Protocol):
    """A model that reads the query and each text together.

    Attributes:
        name: shown in the result and the record.
    """

    name: str

    def rerank(self, query: str, chunks: Sequence[Chunk]) -> Sequence[float] | None:
        """Return one score in [0, 1] per chunk, in the order given; None for "no opinion".

        Each chunk carries stage 1's relevance as its score of that kind.

        Raises:
            RerankerError: the model failed; the search goes on without it and says so.
        """
        ...


@runtime_checkable
class AdaptableReranker(Protocol):
    """A reranker that compares vectors, or asks one that does, and can do so under a search's adapter; optional."""

    def under(self, adapter: VectorAdapter) -> Reranker | None:
        """Return the reranker under an adapter, its cost no more than that of this one; it is used for one search.

        Returns:
            None where it compares no vectors that the adapter is for.
        """
        ...


def reranker_under(reranker: Reranker, adapter: VectorAdapter) -> Reranker | None:
    """Return a reranker under an adapter; None where it makes nothing of one."""
    return reranker.under(adapter) if isinstance(reranker, AdaptableReranker) else None


@runtime_checkable
class QueryRefiner(Protocol):
    """A model that words a question better for search. Safe for several threads at once.

    Attributes:
        name: shown in the result and the record.
    """

    name: str

    def refine(self, query: str, language: str) -> Refinement:
        """Return another wording of a question and what it is about.

        Args:
            query: cleaned.
            language: ISO 639-1 code; "und" where it is not known.

        Raises:
            RefinerError: the model failed; the query is searched as it is.
        """
        ...


@runtime_checkable
class Embedder(Protocol):
    """A model that turns text into vectors.

    Safe for several threads at once. Vectors are of unit length, all zeros for a text the model has no word for, so
    that their dot product is their cosine.

    Attributes:
        model_id: vectors of one model_id are comparable.
        dimension: length of a vector; reading it may load the model or ask the server.
    """

    @property
    def model_id(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def embed_query(self, text: str) -> Sequence[float]:
        """Return the vector of a query.

        Raises:
            EmbedderError: the model cannot be loaded, or gave nothing.
        """
        ...

    def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector per text, in the order given.

        Raises:
            EmbedderError: the model cannot be loaded, or gave nothing.
        """
        ...


@runtime_checkable
class QueryBatchEmbedder(Protocol):
    """An embedder that also takes many questions at once, where a base is taught rather than searched."""

    def embed_queries(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the vector of each query, in the order given: what `embed_query` gives it.

        Raises:
            EmbedderError: the model cannot be loaded, or gave nothing.
        """
        ...


class TokenVectors(NamedTuple):
    """The tokens of one text in order, without the model's own marks, and a unit vector for each."""

    tokens: Sequence[str]
    vectors: Sequence[Sequence[float]]


@runtime_checkable
class TokenEmbedder(Protocol):
    """An embedder that also gives a vector for each token of a text."""

    def embed_tokens(self, texts: Sequence[str], *, query: bool = False) -> Sequence[TokenVectors]:
        """Return the tokens of each text with their vectors, cut at the model's longest input.

        Args:
            texts: passages, or questions if `query`.

        Raises:
            EmbedderError: the model cannot be loaded, or gave nothing.
        """
        ...


@runtime_checkable
class TokenCounter(Protocol):
    """Counts tokens as a language model would."""

    name: str

    def count(self, text: str) -> int:
        """Return the number of tokens, >= 0; 0 only for empty text."""
        ...


class PersonalData(NamedTuple):
    """A place in a text that holds personal data.

    Attributes:
        start, end: characters [start, end) of the text.
        kind: what it is, in capitals ("IBAN"); it stands in the pseudonym.
        value: the same however it is written: spellings that mean one person, account or number have one value.
    """

    start: int
    end: int
    kind: str
    value: str


@runtime_checkable
class Masker(Protocol):
    """Finds personal data of some kinds, such as names. Safe for several threads at once.

    What it finds is replaced by a keyed pseudonym, so that equal values stay equal.
    """

    def find(self, text: str) -> Iterable[PersonalData]:
        """Return the places that are to be masked, in any order; they may overlap those of other maskers."""
        ...


Mask = Callable[[str], str]
"""Returns a text with the personal data in it replaced; a text that was masked stays as it is."""


class AccessPolicy(Protocol):
    """Decides who may search what. Safe for many threads; asked before any source is.

    Attributes:
        policy_hash: names the rules: equal hashes decide alike.
    """

    @property
    def policy_hash(self) -> str: ...

    def decide(self, principal: Principal, domain: DomainSpec) -> AccessDecision:
        """Return what a principal may search of a domain; whoever has fewer roles may never search more."""
        ...

    def rules_of(self, source_id: str) -> str:
        """Return what names the rules of a source: equal for sources that admit the same; "" for one open to all."""
        ...


class Authenticator(Protocol):
    """Says who a request comes from. Safe for many threads; never waits for the network."""

    def authenticate(self, authorization: str | None) -> Authenticated:
        """Return who calls.

        Args:
            authorization: the header of that name, its bytes read as Latin-1; None where there is none.

        Raises:
            NotAuthenticated: no token, or one that opens nothing.
            TokensUnchecked: it cannot be checked now.
        """
        ...

    def problems(self) -> tuple[str, ...]:
        """Return why some tokens cannot be checked now, each in a sentence; () where the service is ready."""
        ...

    def close(self) -> None:
        """Stop what runs beside it; may be called twice."""
        ...


class Recorder(Protocol):
    """Takes every search for the record, before its answer is given. Safe for many threads.

    Each method may raise `AuditUnavailable`: what was not recorded must not be given out. Any other error of it is
    logged, and the search goes on.
    """

    def record(self, result: SearchResult, access: AccessRecord) -> None:
        """Keep a result, also one in which every source failed, with what access control did to it."""
        ...

    def refuse(self, request: SearchRequest, access: AccessRecord, error: Exception) -> None:
        """Keep a request that came to no result, with what is raised for it.

        Args:
            access: its decision is None where there is no such domain for the caller, or no policy decided.
        """
        ...

    def assembled(self, result: SearchResult, context: Context) -> None:
        """Keep what a model is given to read of a result that was recorded."""
        ...

    def fetched(self, principal: Principal, domain: str, source_id: str, chunks: Sequence[Chunk]) -> None:
        """Keep which chunks of a source a principal was given by their ids."""
        ...


class Clock(Protocol):
    """The time, passed in so that a search can be repeated."""

    def now(self) -> datetime:
        """Return the current moment, aware, UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...


class IdSource(Protocol):
    """Makes search ids."""

    def new(self, now: datetime) -> str:
        """Return a new id; ids sort by the time they were made at."""
        ...
