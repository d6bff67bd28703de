"""What chunks of a store in PostgreSQL lead to: the same as in the embedded base, and a record that replays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, NamedTuple

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from context_engine import demo
from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace
from context_engine.audit.record.drafts import search_draft
from context_engine.audit.record.question import Pseudonyms
from context_engine.audit.record.restored import restore
from context_engine.audit.values import Addendum
from context_engine.core.engine import Engine, recompute, stage_two_bytes
from context_engine.core.models import (
    AccessRecord,
    AccessScope,
    Chunk,
    DomainSpec,
    Edge,
    LinkOrigin,
    LinkQuery,
    PathStep,
    Principal,
    Registry,
    ScoreKind,
    SearchRequest,
    SearchResult,
    SourceQuery,
    SourceSpec,
    SourceType,
)
from context_engine.core.protocols import GraphStore
from context_engine.core.query.features import citations
from context_engine.errors import EmbedderError
from context_engine.ingest.run import ingest
from context_engine.testing import FakeEmbedder
from context_engine.wiring.setup import load_setup
from tests.postgresql_store import Store

pytestmark = pytest.mark.slow
Sources = Mapping[str, Any]


class Banks(NamedTuple):
    """The sources of the demo bank over both stores, by their ids."""

    registry: Registry
    embedded: Sources
    served: Sources


@pytest.fixture(scope="module")
def banks(plain_server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Banks]:
    with filled_banks(tmp_path_factory.mktemp("demo"), Store(plain_server.dsn("postgres"))) as banks:
        yield banks


@contextmanager
def filled_banks(folder: Path, store: Any) -> Iterator[Banks]:
    registry = load_setup(manifest_dir=demo.MANIFESTS, env={}, cwd=folder).registry
    specs = [spec for name in registry.names for spec in registry.domain(name).sources]
    given = store.spec()
    placed = {name: getattr(given, name) for name in ("adapter", "connection", "settings")}
    own = {spec.id: spec.model_copy(update=placed) for spec in specs}
    with LocalBase.open(folder / "base", create=True) as base:
        with base.writer() as writer:
            ingest(demo.BANK, specs, writer)
        with store.sink(*own.values()) as sink:
            ingest(demo.BANK, specs, sink)
        embedded = {spec.id: LocalSource(base, spec.id, spec=spec) for spec in specs}
        served = {name: store.source(spec) for name, spec in own.items()}
        yield Banks(registry, embedded, served)
        for source in served.values():
            source.close()


def linked(
    source: Any, origins: Sequence[LinkOrigin], edge: Edge, text: str, access: AccessScope | None = None
) -> list[tuple[str, str]]:
    """Return (origin, chunk) of the links of one kind; of a document cited as a whole, (origin, document)."""
    asked = SourceQuery(text=text, domain="NPA", top_k=1_000, access=access)
    links = source.linked(LinkQuery(query=asked, origins=origins, edges=frozenset({edge})))
    ends = [(link.origin[1], link.chunk) for link in links]
    if edge is Edge.BELONGS_TO:  # the two score texts a little differently, so the best three chunks may be others
        return list(dict.fromkeys((begin, str(chunk.document_id)) for begin, chunk in ends))
    return [(begin, chunk.chunk_id) for begin, chunk in ends]


def origins_of(source_id: str, chunks: Sequence[Chunk]) -> list[LinkOrigin]:
    return [LinkOrigin((source_id, chunk.chunk_id), chunk, citations(chunk.content)) for chunk in chunks]


@pytest.mark.parametrize("edge", list(Edge))
def test_chunks_of_the_demo_bank_lead_to_what_they_do_in_an_embedded_base(banks: Banks, edge: Edge) -> None:
    number = 0
    for name in banks.registry.names:
        ids = [spec.id for spec in banks.registry.domain(name).sources]
        for source_id in ids:
            origins = origins_of(source_id, list(banks.embedded[source_id].list_chunks()))
            text = f"approval limit {origins[0].chunk.content[:80]}"
            for into in ids:
                links = linked(banks.embedded[into], origins, edge, text)
                assert linked(banks.served[into], origins, edge, text) == links
                number += len(links)
    assert number > 20, "the demo bank has edges of each kind"


def test_a_search_that_follows_links_replays_to_the_same_bytes(banks: Banks) -> None:
    request = SearchRequest(
        query="Who is told of an operational loss, and which procedure says so?",
        domain="ORM",
        overrides={"graph_hops": 2, "graph_edges": list(Edge), "scope_threshold": None},
    )
    results = [searched(sources, banks.registry, request) for sources in (banks.embedded, banks.served)]
    reached = [{link.chunk_id for answer in result.raw for link in answer.links} for result in results]
    assert reached[1] and all(chunk.chunk_id for chunk in results[1].chunks)
    assert any("linked" in chunk.flags for chunk in results[1].chunks)
    assert len(reached[0] & reached[1]) > len(reached[1]) / 2
    restored = out_of_its_record(results[1])
    assert restored == results[1]
    assert stage_two_bytes(recompute(restored)) == stage_two_bytes(results[1])


def test_a_procedure_in_a_folder_leads_to_the_clause_in_a_server(store: Store, tmp_path: Path) -> None:
    clauses = {"1": "Words have their usual meaning.", "3": "The treasurer signs within a day."}
    rules = [
        Chunk(content=text, chunk_id=f"rules#{number}", title="TRS-SOP-002 Treasury", section=number)
        for number, text in clauses.items()
    ]
    procedure = Chunk(
        content="Who reports a breach of the approval limit follows TRS-SOP-002, section 3.", chunk_id="p"
    )
    specs = (SourceSpec(id="sop", type=SourceType.BANK_SOP, adapter="local"), store.spec("rules"))
    with LocalBase.open(tmp_path / "base", create=True) as base, store.sink(specs[1]) as sink:
        with base.writer() as writer:
            writer.put("sop", "desk", "", "1", [procedure])
        sink.put("rules", "TRS-SOP-002", "", "1", rules)
        sink.commit()
        sources = {"sop": LocalSource(base, "sop", spec=specs[0]), "rules": store.source(specs[1])}
        request = SearchRequest(query="Who reports a breach?", domain="DESK", overrides={"graph_hops": 1})
        result = searched(
            sources, Registry(domains={"DESK": DomainSpec(version=1, domain="DESK", sources=specs)}), request
        )
        sources["rules"].close()
    links = {link.chunk_id: link.path for answer in result.raw for link in answer.links}
    assert links == {"rules#3": (PathStep("sop", "p", Edge.CITES),)}
    assert [chunk.chunk_id for chunk in result.chunks] == ["p", "rules#3"]


def searched(sources: Sources, registry: Registry, request: SearchRequest) -> SearchResult:
    with Engine(registry, lambda _domain, spec: sources[spec.id]) as engine:
        return engine.search(request)


def out_of_its_record(result: SearchResult) -> SearchResult:
    access = AccessRecord(principal=Principal(id="reader"))
    draft = search_draft(result, access, pseudonyms=Pseudonyms(b"s" * 32), code_version="1", kept="text")
    shared = {content.key: Addendum.of(content.kind, content.data) for content in draft.contents}
    composed = draft.compose({key: addendum.digest for key, addendum in shared.items()})
    kept = {addendum.digest: addendum for addendum in (*shared.values(), *composed.addenda)}
    addenda = SimpleNamespace(addenda=lambda digests: {digest: kept[digest] for digest in digests})
    return restore(composed.entry, addenda).result  # type: ignore[arg-type]


RULES = [
    Chunk(content="A breach is reported under section 1.2.", chunk_id="1", section="1.1"),
    Chunk(content="The board hears of it within a day.", chunk_id="2", section="1.2"),
]


def test_tables_of_the_version_before_have_links(store: Store) -> None:
    with store.sink() as sink:
        sink.put("notes", "rules", "", "1", RULES)
    with psycopg.connect(store.dsn, autocommit=True) as connection:
        connection.execute(f"SET search_path = {store.schema}")  # type: ignore[arg-type]
        connection.execute("ALTER TABLE classes DROP COLUMN generation; UPDATE state SET version = 1")
    source = store.source()
    assert linked(source, origins_of("notes", RULES), Edge.CITES, "board") == [("1", "2")]
    source.close()


class Away(FakeEmbedder):
    def embed_query(self, text: str) -> Sequence[float]:
        raise EmbedderError("the model is away")


def test_without_the_embedder_links_are_scored_by_words(vector_store: Store) -> None:
    with vector_store.sink() as sink:
        sink.put("notes", "rules", "", "1", RULES)
    vector_store.embedder = Away(64)
    source = vector_store.source()
    query = LinkQuery(
        query=SourceQuery(text="board", domain="NPA", top_k=3),
        origins=origins_of("notes", RULES),
        edges=frozenset({Edge.CITES}),
    )
    assert isinstance(source, GraphStore)
    (link,) = source.linked(query)
    source.close()
    assert [score.kind for score in link.chunk.scores] == [ScoreKind.BM25]


NAMES = ("LIM-SOP-001", "ESC-SOP-002", "MAS 637", "REC-STD-04")
NUMBERS = ("1", "2", "2.1", "2.2(a)", "2.2.(b)", "3.1.4", "3.10")
CITED = st.one_of(
    st.sampled_from(["Nothing is cited.", "It applies."]),
    st.builds("Section {} applies.".format, st.sampled_from(NUMBERS)),
    st.builds("See {}.".format, st.sampled_from(NAMES)),
    st.builds("See {}, section {}.".format, st.sampled_from(NAMES), st.sampled_from(NUMBERS)),
    st.builds("Paragraph {} of {} applies.".format, st.sampled_from(NUMBERS), st.sampled_from(NAMES)),
)
SECTIONS = st.lists(st.tuples(st.sampled_from((*NUMBERS, None)), CITED, CITED), min_size=1, max_size=6)
DOCUMENTS = st.dictionaries(st.sampled_from(NAMES), st.tuples(st.sampled_from(["sop", "hidden"]), SECTIONS), min_size=1)
READERS = (None, AccessScope(rules=frozenset({"members"})), AccessScope())


def rules_of(source_id: str) -> str:
    return "members" if source_id == "hidden" else ""


@settings(
    max_examples=15,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # an example writes two stores: shrinking takes too long
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(DOCUMENTS, st.sampled_from(["limit desk", "who applies it", "nothing is said of rules"]))
def test_random_documents_lead_to_what_they_do_in_an_embedded_base(
    plain_server: Any, documents: Any, question: str
) -> None:
    store = Store(plain_server.dsn("postgres"))
    specs = [store.spec("sop"), store.spec("hidden")]
    written = {
        name: [
            Chunk(
                content=f"Rule {place} of the desk has a limit. {first} {second}",
                chunk_id=f"{name}#{place}",
                title=f"{name} rules" if place % 2 else name,
                section=section,
                metadata={"odd": "\0 and \\u0000"} if place == 4 else {},
            )
            for place, (section, first, second) in enumerate(sections)
        ]
        for name, (_, sections) in documents.items()
    }
    with TemporaryDirectory() as folder:
        place = {name: SourcePlace(rules_of(name)) for name in ("sop", "hidden")}
        with LocalBase.open(Path(folder) / "base", create=True, place=place.get) as base:
            with base.writer() as writer, store.sink(*specs, rules_of=rules_of) as sink:
                for name, (source_id, _) in documents.items():
                    for either in (writer, sink):
                        either.put(source_id, name, "", "1", written[name])
            origins = [
                origin for name, (source_id, _) in documents.items() for origin in origins_of(source_id, written[name])
            ]
            for spec in specs:
                postgres = store.source(spec, rules_of)
                for edge in Edge:
                    for reader in READERS:
                        links = linked(LocalSource(base, spec.id), origins, edge, question, reader)
                        assert linked(postgres, origins, edge, question, reader) == links
                postgres.close()
