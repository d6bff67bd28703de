"""The demo bank as its user has it: built once a session, asked in-process, always on 2 March 2026."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from context_engine import Chunk, Engine, Registry, SearchRequest, SearchResult, build_engine, demo
from context_engine.adapters.embedders.openai import OpenAIEmbedder
from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.core.models import DomainSpec
from context_engine.core.protocols import TokenVectors
from context_engine.ingest.run import ingest
from context_engine.wiring.embedded_base import base_path
from context_engine.wiring.setup import Setup, load_setup

TODAY = datetime(2026, 3, 2, 10, tzinfo=UTC)


class StillClock:
    def now(self) -> datetime:
        return TODAY

    def monotonic(self) -> float:
        return time.monotonic()


@dataclass
class Cut:
    """Takes the documents of a bank as they are cut; a document sink."""

    documents_of: dict[tuple[str, str, str], Sequence[Chunk]] = field(default_factory=dict)

    def put(self, source_id: str, document_id: str, version: str, content_hash: str, chunks: Sequence[Chunk]) -> bool:
        self.documents_of[source_id, document_id, version] = chunks
        return True

    def delete(self, *_: str) -> bool:
        return False

    def documents(self, _source_id: str) -> Mapping[tuple[str, str], str]:
        return {}

    def commit(self) -> None:
        pass


@dataclass(frozen=True)
class DemoBank:
    """The demo's knowledge base with an engine on it; `whole` is one domain BANK over all its sources."""

    setup: Setup
    place: Path
    engine: Engine
    whole: Engine

    def ask(self, query: str, domain: str, **given: Any) -> SearchResult:
        """Search; fields of the request by name, everything else is a setting."""
        fields = {key: given.pop(key) for key in list(given) if key in SearchRequest.__dataclass_fields__}
        if isinstance(fields.get("as_of"), str):
            fields["as_of"] = date.fromisoformat(fields["as_of"])
        engine = self.whole if domain == "BANK" else self.engine
        return engine.search(SearchRequest(query=query, domain=domain, overrides=given, **fields))


@pytest.fixture(scope="session")
def demo_bank(demo_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoBank]:
    empty = tmp_path_factory.mktemp("demo")
    setup = load_setup(manifest_dir=demo.MANIFESTS, env={"HOME": str(empty)}, cwd=empty)
    place = demo.data_dir(demo_data)
    sources = tuple(source for name in setup.registry.names for source in setup.registry.domain(name).sources)
    whole = Registry(domains={"BANK": DomainSpec(version=1, domain="BANK", sources=sources)})
    base = LocalBase(base_path(place))
    with (
        build_engine(setup, data_dir=place, clock=StillClock()) as engine,
        Engine(whole, lambda _domain, spec: LocalSource(base, spec.id, spec=spec), clock=StillClock()) as one_domain,
    ):
        yield DemoBank(setup, place, engine, one_domain)


@pytest.fixture(scope="session")
def documents(demo_bank: DemoBank) -> dict[tuple[str, str, str], Sequence[Chunk]]:
    """{(source id, document id, version): chunks} of the whole demo bank."""
    registry, cut = demo_bank.setup.registry, Cut()
    ingest(demo.BANK, [source for name in registry.names for source in registry.domain(name).sources], cut)
    return cut.documents_of


@pytest.fixture(scope="session")
def questions() -> list[dict[str, Any]]:
    return [json.loads(line) for line in demo.QUESTIONS.read_text("utf-8").splitlines()]


@pytest.fixture(scope="session")
def answers(demo_bank: DemoBank, questions: list[dict[str, Any]]) -> dict[str, SearchResult]:
    """{question id: its result with the default settings}."""
    return {one["id"]: demo_bank.ask(one["query"], one["domain"], as_of=one.get("as_of")) for one in questions}


def holds(answer: Mapping[str, Any], document: str | None, version: str | None, section: str | None, text: str) -> bool:
    """Whether a text is (part of) the section that answers; a text without a section number holds its headings."""
    if (document, version or "") != (answer["document_id"], answer["version"]):
        return False
    wanted = answer["section"]
    if wanted is None or section is None:
        return wanted is None or re.search(rf"^#+ {re.escape(wanted)} ", text, re.MULTILINE) is not None
    return section == wanted or section.startswith(f"{wanted}.")


@pytest.fixture(scope="session")
def is_answer() -> Callable[..., bool]:
    return holds


@pytest.fixture(scope="session")
def first_ranks() -> Callable[[SearchResult, Sequence[Mapping[str, Any]]], list[int | None]]:
    """For each gold answer the rank of the first chunk that holds it, itself or merged into it."""

    def ranks(result: SearchResult, answers: Sequence[Mapping[str, Any]]) -> list[int | None]:
        texts = {(raw.source_id, chunk.chunk_id): chunk.content for raw in result.raw for chunk in raw.chunks}

        def hit(answer: Mapping[str, Any], chunk: Any) -> bool:
            stands = [(chunk.chunk.document_id, chunk.chunk.document_version, chunk.chunk.section, chunk.content)]
            for one in chunk.also_in:
                text = texts[one.source_id, one.chunk_id]
                stands.append((one.document_id, one.document_version, one.section, text))
            return any(holds(answer, *place) for place in stands)

        return [next((chunk.rank for chunk in result.chunks if hit(answer, chunk)), None) for answer in answers]

    return ranks


@pytest.fixture
def token_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server gives token vectors: here its embedder does as one in process would, a word being a token."""

    def of_words(embedder: OpenAIEmbedder, texts: Sequence[str], *, query: bool = False) -> list[TokenVectors]:
        return [TokenVectors(words := text.split(), embedder.embed_documents(words)) for text in texts]

    monkeypatch.setattr(OpenAIEmbedder, "embed_tokens", of_words, raising=False)
