"""Conformance tests for a source that claims access classes (`access_classes = True`).

Subclass `AccessContract` in your test file and run pytest.

class TestMySource(AccessContract):
    def open_sink(self, specs, rules_of):
        return open_my_sink(...)

    def open_source(self, spec, rules_of):
        return MySource(...)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from itertools import islice
from random import Random
from typing import Any, ClassVar, Final
from unittest import SkipTest

from context_engine.core.models import (
    NOBODY,
    AccessRule,
    AccessScope,
    Chunk,
    Classification,
    DomainSpec,
    FetchRequest,
    Principal,
    SearchRequest,
    SourceAnswer,
    SourceQuery,
    SourceSpec,
    SourceType,
)
from context_engine.core.policy.access import ManifestPolicy
from context_engine.core.protocols import Fetchable, Sink, Source, Versioned
from context_engine.errors import ContextEngineError
from context_engine.testing.noninterference import (
    AccessCertificate,
    HiddenChange,
    HiddenTexts,
    certify,
    hidden_changes,
    hidden_places,
    insider_of,
    made_requests,
    write_change,
)

RulesOf = Callable[[str], str]
_VERSION_S: Final = 10.0

_OPEN: Final = (
    "Hotels: the limit is 200 a night. Claims above the limit need approval by the head of the desk.",
    "Approval of a new product: the committee decides within ten days. Minutes are kept for seven years.",
    "Travel by train is booked by the desk. The hotel is paid by the traveller and claimed afterwards.",
    "Collateral is valued daily. A margin call is settled on the next business day.",
)
_HIDDEN: Final = "Project Falcon: the board buys the hotel. The limit of the project is kept from the desk."
_OPEN_SOURCE: Final = SourceSpec(id="open_rules", type=SourceType.BANK_SOP)
_BARE_SOURCE: Final = SourceSpec(id="bare_rules", type=SourceType.BANK_SOP)
_BOARD_SOURCE: Final = SourceSpec(
    id="board_papers",
    type=SourceType.SYSTEM_OF_RECORD,
    classification=Classification.CONFIDENTIAL,
    access=AccessRule(roles=("board",)),
)


class AccessContract:
    """Tests of a source that claims access classes; every test starts in its own empty place.

    Attributes:
        access_domain: has three sources: one open to all, one for raised documents only, one with an access rule.
        changes, questions: size of the certificate.
        timeout_s: seconds for each search.
        compares_versions: whether versions are compared; False if a sink writes more than the documents it is given.
    """

    access_domain: ClassVar[DomainSpec] = DomainSpec(
        version=1, domain="NPA", sources=(_OPEN_SOURCE, _BARE_SOURCE, _BOARD_SOURCE)
    )
    changes: ClassVar[int] = 60
    questions: ClassVar[int] = 20
    compares_versions: ClassVar[bool] = True
    timeout_s: ClassVar[float] = 10.0

    def open_sink(self, specs: Sequence[SourceSpec], rules_of: RulesOf) -> AbstractContextManager[Sink]:
        """Return the sink of some sources in the test's place; a test opens it several times.

        Args:
            rules_of: returns the access rules of a source, or "".
        """
        raise TypeError(f"{type(self).__name__} must define open_sink()")

    def open_source(self, spec: SourceSpec, rules_of: RulesOf) -> Source:
        """Return a new source that searches the documents written by the sink."""
        raise TypeError(f"{type(self).__name__} must define open_source()")

    def test_claims_access_classes(self) -> None:
        source = self._source(_OPEN_SOURCE)
        assert getattr(source, "access_classes", False) is True, "access_classes must be True"
        source.close()

    def test_a_source_with_a_rule_is_read_only_by_those_it_admits(self) -> None:
        self._write()
        assert self._found(_BOARD_SOURCE, NOBODY) == []
        assert self._found(_BOARD_SOURCE, Principal(roles=frozenset({"board"}))) == [], "the clearance is missing"
        assert self._found(_BOARD_SOURCE, self._insider) == ["falcon"]

    def test_a_document_that_raises_its_classification_needs_clearance(self) -> None:
        self._write()
        assert "raised" not in self._found(_OPEN_SOURCE, NOBODY)
        assert "raised" in self._found(_OPEN_SOURCE, Principal(clearance=Classification.RESTRICTED))

    def test_without_a_scope_everything_is_read(self) -> None:
        self._write()
        source = self._source(_BOARD_SOURCE)
        answer = source.search(self._query())
        assert {chunk.document_id for chunk in answer.chunks} == {"falcon"}
        source.close()

    def test_unreadable_chunks_are_not_fetched(self) -> None:
        self._write()
        cleared = Principal(clearance=Classification.RESTRICTED)
        assert self._fetched(_OPEN_SOURCE, NOBODY, "open-0", "raised") == ["open-0"]
        assert self._fetched(_OPEN_SOURCE, cleared, "open-0", "raised") == ["open-0", "raised"]
        assert self._fetched(_BOARD_SOURCE, cleared, "falcon") == [], "the role is missing"
        assert self._fetched(_BOARD_SOURCE, self._insider, "falcon") == ["falcon"]

    def test_its_version_is_new_after_what_a_caller_may_read_has_changed_and_only_then(self) -> None:
        self._write()
        before = self._versions()
        self._put(_OPEN_SOURCE.id, "open-0", Chunk(content="The limit of a desk is nine million."))
        opened = self._versions()
        self._put(_BOARD_SOURCE.id, "falcon", Chunk(content=f"{_HIDDEN} Closed."))
        closed = self._versions()
        assert [old != new for old, new in zip(before, opened, strict=True)] == [True, True, True]
        assert [old != new for old, new in zip(opened, closed, strict=True)] == [False, True, True]

    def test_unreadable_documents_change_no_answer(self) -> None:
        for principal in (NOBODY, Principal(id="clerk", roles=frozenset({"clerk"}), clearance=Classification.INTERNAL)):
            certificate = self._certificate(principal)
            assert certificate.first is None, (
                f"hidden documents show in {dict(certificate.differing)}: {certificate.first}"
            )
            assert certificate.holds, "no principal sees the changes: were they written?"

    @property
    def _policy(self) -> ManifestPolicy:
        return ManifestPolicy({self.access_domain.domain: self.access_domain})

    @property
    def _insider(self) -> Principal:
        return insider_of([self.access_domain])

    def _source(self, spec: SourceSpec) -> Source:
        return self.open_source(spec, self._policy.rules_of)

    def _write(self) -> None:
        with self.open_sink(self.access_domain.sources, self._policy.rules_of) as sink:
            for number, text in enumerate(_OPEN):
                sink.put(_OPEN_SOURCE.id, f"open-{number}", "", "1", [Chunk(content=text)])
            raised = Chunk(content=_HIDDEN, classification=Classification.RESTRICTED)
            sink.put(_OPEN_SOURCE.id, "raised", "", "1", [raised])
            sink.put(_BOARD_SOURCE.id, "falcon", "", "1", [Chunk(content=_HIDDEN)])
            sink.commit()

    def _put(self, source_id: str, document_id: str, chunk: Chunk) -> None:
        with self.open_sink(self.access_domain.sources, self._policy.rules_of) as sink:
            sink.put(source_id, document_id, "", "2", [chunk])
            sink.commit()

    def _versions(self) -> list[str]:
        """Return the version that nobody, the board, and a caller without a scope see."""
        source = self._source(_OPEN_SOURCE)
        scopes = [self._policy.decide(who, self.access_domain).scope for who in (NOBODY, self._insider)]
        versions = [self._version_of(source, scope) for scope in (*scopes, None)]
        source.close()
        if not all(versions):
            raise SkipTest("cannot tell its version")
        return versions

    def _version_of(self, source: Source, access: AccessScope | None) -> str:
        known = next((of for of in (source, getattr(source, "store", None)) if isinstance(of, Versioned)), None)
        return known.version(access, _VERSION_S) if known is not None and self.compares_versions else ""

    def _query(self, scope: AccessScope | None = None) -> SourceQuery:
        domain = self.access_domain.domain
        return SourceQuery(text="hotel limit", domain=domain, top_k=10, access=scope, timeout_s=self.timeout_s)

    def _found(self, spec: SourceSpec, principal: Principal) -> list[str | None]:
        source = self._source(spec)
        scope = self._policy.decide(principal, self.access_domain).scope
        answer = source.search(self._query(scope))
        source.close()
        return sorted({chunk.document_id for chunk in answer.chunks}, key=str)

    def _fetched(self, spec: SourceSpec, principal: Principal, *documents: str) -> list[str | None]:
        source = self._source(spec)
        if not isinstance(source, Fetchable):
            source.close()
            raise SkipTest("does not fetch chunks by id")
        scope = self._policy.decide(principal, self.access_domain).scope
        everything = [chunk.chunk_id for chunk in source.fetch(_request(documents))]
        by_document = source.fetch(_request(documents, scope))
        by_chunk = source.fetch(_request((), scope, tuple(everything)))
        source.close()
        document_ids = [
            sorted({chunk.document_id for chunk in fetched}, key=str) for fetched in (by_document, by_chunk)
        ]
        assert document_ids[0] == document_ids[1], "fetching by document and by chunk must give the same documents"
        return document_ids[0]

    def _certificate(self, principal: Principal) -> AccessCertificate:
        self._write()
        draw, readable = Random(7), [Chunk(content=text, document_id=f"open-{n}") for n, text in enumerate(_OPEN)]
        requests = made_requests(draw, self.questions, domains=[self.access_domain.domain], readable=readable)
        places = list(hidden_places([self.access_domain], self._policy, principal))
        changes = hidden_changes(places, HiddenTexts(draw, readable, requests), draw)
        trial = _SourceTrial(self)
        try:
            return certify(trial, principal, requests, islice(changes, self.changes), draw=draw, insider=self._insider)
        finally:
            trial.reopen()


def _request(
    documents: tuple[str, ...], scope: AccessScope | None = None, chunks: tuple[str, ...] = ()
) -> FetchRequest:
    domain = AccessContract.access_domain.domain
    return FetchRequest(domain=domain, document_ids=documents, chunk_ids=chunks, access=scope)


class _SourceTrial:
    """An `AccessTrial` that asks each source of a contract separately."""

    def __init__(self, contract: AccessContract) -> None:
        self._contract = contract
        self._policy = contract._policy
        self._open: dict[str, Source] = {}

    def answer(self, request: SearchRequest) -> Mapping[str, Any]:
        """Return the answer of each source by its id."""
        scope = self._policy.decide(request.principal, self._contract.access_domain).scope
        query = SourceQuery(
            text=request.query, domain=request.domain, top_k=10, filters=request.filters, as_of=request.as_of,
            access=scope, timeout_s=self._contract.timeout_s,
        )  # fmt: skip
        return {spec.id: self._answer_of(spec, query) for spec in self._contract.access_domain.sources}

    def change(self, changes: Sequence[HiddenChange]) -> None:
        """Write and commit some changes."""
        with self._contract.open_sink(self._contract.access_domain.sources, self._policy.rules_of) as sink:
            for change in changes:
                write_change(sink, change)
            sink.commit()

    def reopen(self) -> None:
        """Close the sources; the next request opens them again."""
        for source in self._open.values():
            source.close()
        self._open = {}

    def _answer_of(self, spec: SourceSpec, query: SourceQuery) -> Any:
        if spec.id not in self._open:
            self._open[spec.id] = self._contract.open_source(spec, self._policy.rules_of)
        source = self._open[spec.id]
        try:
            return {**_published(source.search(query)), "version": self._contract._version_of(source, query.access)}
        except ContextEngineError as error:
            return {"error": type(error).__name__, "message": str(error)}


def _published(answer: SourceAnswer) -> dict[str, Any]:
    """Return every field of an answer as JSON values."""
    properties = {name: getattr(answer, name) for name in ("cut", "by_keywords", "unknown_words", "filter_fields")}
    return {
        **properties,
        "chunks": [chunk.to_dict() for chunk in answer.chunks],
        "notes": [notice.to_dict() for notice in answer.notices],
        "failures": [str(failure) for failure in answer.failures],
        "statistics": answer.statistics and asdict(answer.statistics),
        "calibration": answer.calibration and asdict(answer.calibration),
        "compared_by": answer.embedding and answer.embedding.model,
    }
