"""The contract of access classes, against a base that keeps it and against bases that leak, each in one way."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from math import log

import pytest

from context_engine.core.models import Chunk, Score, ScoreKind, SourceAnswer, TermStatistics, UnknownWord
from context_engine.core.policy.access import access_class
from context_engine.core.query.spelling import near_words, words_to_check
from context_engine.core.text import terms
from context_engine.testing import AccessContract, SourceContract


@cache
def words(text: str) -> frozenset[str]:
    return frozenset(terms(text))


class PlainBase:
    """A base in memory, whose every number comes from what the caller may read; `leak` names the one that does not."""

    def __init__(self, leak: str = "") -> None:
        self.leak = leak
        self.documents: dict[tuple[str, str, str], tuple] = {}

    def readable(self, access, *, but_for: str) -> list[tuple[str, Chunk]]:
        """All chunks that may be read, each with its source; all there are, where this is what leaks."""
        return [
            (source, chunk)
            for (source, _, _), (held, chunks) in sorted(self.documents.items())
            for chunk in chunks
            if self.leak == but_for or access is None or access.admits(held)
        ]


class PlainSink:
    def __init__(self, base, specs, rules_of) -> None:
        self.base, self.rules_of = base, rules_of
        self.declared = {spec.id: spec.classification for spec in specs}

    def put(self, source_id, document_id, version, content_hash, chunks) -> bool:
        claims = [chunk.classification for chunk in chunks if chunk.classification]
        claimed = max(claims, key=lambda one: one.rank, default=None)
        held = access_class(self.rules_of(source_id), self.declared[source_id], claimed)
        kept = tuple(
            chunk._replace(document_id=document_id, chunk_id=chunk.chunk_id or f"{document_id}/{place}")
            for place, chunk in enumerate(chunks)
        )
        self.base.documents[source_id, document_id, version] = (held, kept)
        return True

    def delete(self, source_id, document_id, version) -> bool:
        return self.base.documents.pop((source_id, document_id, version), None) is not None

    def commit(self) -> None:
        pass


class PlainSource:
    score_kinds = frozenset({ScoreKind.BM25})
    access_classes = True

    def __init__(self, base, source_id) -> None:
        self.base, self.source_id = base, source_id

    def search(self, query) -> SourceAnswer:
        def held(name):
            return [chunk for _, chunk in self.base.readable(query.access, but_for=name)]

        counted = [words(chunk.content) for chunk in held("statistics")]
        frequency = {term: sum(term in one for one in counted) for term in terms(query.text)}
        scored = []
        for source, chunk in self.base.readable(query.access, but_for="chunks"):
            shared = words(chunk.content) & frequency.keys()
            value = sum(log(1 + len(counted) / (1 + frequency[term])) for term in sorted(shared))
            if source == self.source_id and shared:
                scored.append(chunk._replace(scores=(Score(ScoreKind.BM25, value),)))
        scored.sort(key=lambda chunk: (-chunk.scores[0].value, chunk.chunk_id))
        lag = ("hidden text was written",) if self.base.leak == "notes" and len(held("notes")) % 2 else ()
        return SourceAnswer(
            chunks=self.normalised(self.near(scored, held("cells")), held("normaliser"))[: query.top_k],
            cut=max(len(held("cut")) - query.top_k, 0),
            notes=lag,
            statistics=TermStatistics(collection="plain", chunks=len(counted), document_frequency=frequency),
            unknown_words=tuple(self.unknown(query.text, held("vocabulary"))),
            filter_fields=tuple(sorted({name for chunk in held("fields") for name in chunk.metadata})),
        )

    def version(self, access, timeout_s) -> str:
        return repr([(source, chunk.to_dict()) for source, chunk in self.base.readable(access, but_for="version")])

    def near(self, scored, all_chunks):
        """An approximate search: of two cells, of long texts and of short ones, it looks at one."""
        middle = sum(len(chunk.content) for chunk in all_chunks) / max(len(all_chunks), 1)
        return [one for one in scored if len(one.content) <= 1.2 * middle]

    def normalised(self, scored, all_chunks):
        longest = max((len(chunk.content) for chunk in all_chunks), default=1)
        return [one._replace(scores=(Score(ScoreKind.BM25, one.scores[0].value / longest),)) for one in scored]

    def unknown(self, text, chunks) -> Iterator[UnknownWord]:
        known = {word.casefold() for chunk in chunks for word in chunk.content.split() if word.isalpha()}
        for word in words_to_check(text):
            if word.casefold() not in known:
                near = sorted(near_words(word.casefold(), sorted(known)))
                yield UnknownWord(word, near[0][1] if near else "")

    def close(self) -> None:
        pass


class PlainContract(AccessContract):
    changes, questions = 25, 12

    def __init__(self, leak: str = "") -> None:
        self.base = PlainBase(leak)

    @contextmanager
    def open_sink(self, specs, rules_of):
        yield PlainSink(self.base, specs, rules_of)

    def open_source(self, spec, rules_of):
        return PlainSource(self.base, spec.id)


class TestPlainBase(PlainContract):
    @pytest.fixture(autouse=True)
    def _empty(self) -> None:
        self.base = PlainBase()

    __init__ = object.__init__


@pytest.mark.parametrize(
    ("leak", "shows_at"),
    [
        ("chunks", r"chunks\[\d\]|chunks\.length"),
        ("statistics", r"chunks\[\d\]\.(scores|content)|statistics"),
        ("normaliser", r"chunks\[\d\]\.scores\[0\]\.value"),
        ("cells", r"chunks\[\d\]|chunks\.length"),
        ("vocabulary", r"unknown_words"),
        ("fields", r"filter_fields"),
        ("cut", r"cut"),
        ("notes", r"notes"),
        ("version", r"version"),
    ],
)
def test_a_leak_is_found(leak, shows_at):
    with pytest.raises(AssertionError, match=f"hidden documents show in .*where='\\w+\\.({shows_at})"):
        PlainContract(leak).test_unreadable_documents_change_no_answer()


def test_changes_that_nobody_can_see_show_nothing():
    class Deaf(PlainContract):
        @contextmanager
        def open_sink(self, specs, rules_of):
            with super().open_sink(specs, rules_of) as sink:
                written = dict(self.base.documents)
                yield sink
                if written:
                    self.base.documents = written

    with pytest.raises(AssertionError, match="no principal sees the changes"):
        Deaf().test_unreadable_documents_change_no_answer()


def test_a_source_that_claims_access_classes_is_tested_for_them():
    class Unshown(SourceContract):
        def make_source(self):
            return PlainSource(PlainBase(), "open_rules")

    with pytest.raises(AssertionError, match="derive its tests from AccessContract"):
        Unshown().test_a_claim_of_access_classes_is_tested()
