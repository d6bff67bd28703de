"""Changes of the nodes on the server, in the transactions of the one writer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from context_engine.adapters.sources.neo4j.rows import NewDocument
from context_engine.adapters.sources.neo4j.server import Transaction
from context_engine.adapters.sources.neo4j.state import GraphState, Lease, forget_moved
from context_engine.adapters.sources.stores.term_counts import ClassCounts

COUNTED: Final = ("words", "title_words", "head_words", "written")
"""The fields of a chunk whose words are counted."""
_DELETED_AT_ONCE: Final = 2_000
_COUNTED_AT_ONCE: Final = 20_000


class NodeWriter:
    """Changes the nodes of a store.

    Args:
        lease: the right to write.
        store: its name.
        now: returns the time, aware.
    """

    def __init__(self, lease: Lease, store: str, now: Callable[[], datetime]) -> None:
        self._lease, self._store, self._now = lease, store, now

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Yield a transaction; raises as `Lease.writing` does."""
        with self._lease.writing(self._now().timestamp()) as transaction:
            yield transaction

    def write(self, documents: Sequence[NewDocument], further: Sequence[Any]) -> None:
        """Write the nodes of documents, those of further vectors, and their relations."""
        store = self._store
        with self.writing() as transaction:
            fields = {number: pair for document in documents for number, pair in document.fields.items()}
            transaction.rows(
                f"UNWIND $fields AS row MERGE (f:{store}_field {{number: row[0]}})"
                " SET f.name = row[1], f.value = row[2]",
                fields=[[number, *fields[number]] for number in sorted(fields)],
            )
            transaction.rows(
                f"UNWIND $rows AS row CREATE (n:Document:{store}) SET n = row", rows=[each.record for each in documents]
            )
            transaction.rows(
                f"UNWIND $rows AS row MATCH (n:{store} {{row: row[0]}}) MERGE (p:Project {{store: $store, id: row[1]}})"
                " CREATE (n)-[:BELONGS_TO]->(p)",
                store=store,
                rows=[[each.record["row"], each.record["project"]] for each in documents if each.record["project"]],
            )
            for key in sorted({document.key for document in documents}):
                transaction.rows(
                    f"UNWIND $rows AS row MATCH (d:{store} {{row: row.document}})"
                    f" CREATE (n:Chunk:{store}:{store}_{key})-[:BELONGS_TO]->(d) SET n = row",
                    rows=[node for document in documents if document.key == key for node in document.chunks],
                )
                transaction.rows(
                    f"UNWIND $rows AS row CREATE (n:Passage:{store}:{store}_{key}) SET n = row",
                    rows=[node for node in further if node["store_class"] == key],
                )
            after = [pair for each in documents for pair in pairwise(node["row"] for node in each.chunks)]
            for kind, pairs in (("NEXT_CHUNK", after), ("CITES", [pair for each in documents for pair in each.cites])):
                transaction.rows(
                    f"UNWIND $pairs AS pair MATCH (a:{store} {{row: pair[0]}}) WHERE a:Chunk"
                    f" MATCH (b:{store} {{row: pair[1]}}) WHERE b:Chunk CREATE (a)-[:{kind}]->(b)",
                    pairs=[list(pair) for pair in pairs],
                )

    def remove(self, first: int, last: int, commit: int) -> list[tuple[Any, ...]]:
        """Let some nodes end with a commit; return class and COUNTED of each chunk."""
        with self.writing() as transaction:
            return transaction.rows(
                f"MATCH (n:{self._store}) WHERE n.row >= $first AND n.row <= $last SET n.died = $died"
                f" WITH n WHERE n:Chunk RETURN n.store_class, {', '.join(f'n.{name}' for name in COUNTED)}",
                first=first, last=last, died=commit,
            )  # fmt: skip

    def undo(self, generation: int) -> None:
        """Remove what was written since a commit."""
        self._delete("n.born > $generation", generation=generation)
        with self.writing() as transaction:
            transaction.rows(f"MATCH (n:{self._store}) WHERE n.died > $number REMOVE n.died", number=generation)

    def commit(
        self, state: GraphState, key_counts: Sequence[tuple[int, ClassCounts]] = (), moved: Collection[int] = ()
    ) -> None:
        """Make a state the store's, with the changes of the counts of terms; then delete what no reader may see.

        Args:
            moved: the classes that documents have left or entered: what was learnt from them is forgotten, before
                anybody sees the documents moved.
        """
        if moved:
            with self.writing() as transaction:
                forget_moved(transaction, self._store, moved)
        with self.writing() as transaction:
            if moved:  # what was learnt meanwhile was learnt before they moved
                forget_moved(transaction, self._store, moved)
            for key, counts in key_counts:
                self._count(transaction, key, counts)
            self._lease.write(transaction, state)
        self._delete("n.died <= $died", died=state.cleaned)

    def scrub(self) -> None:
        """Remove the field values that no chunk has any more, and projects without documents."""
        with self.writing() as transaction:
            transaction.rows(
                f"OPTIONAL MATCH (n:{self._store}:Chunk) UNWIND coalesce(n.attributes, [0]) AS number"
                " WITH collect(DISTINCT number) AS used"
                f" MATCH (f:{self._store}_field) WHERE NOT f.number IN used DELETE f"
            )
            transaction.rows("MATCH (p:Project {store: $store}) WHERE NOT (p)<--() DELETE p", store=self._store)

    def _count(self, transaction: Transaction, key: int, counts: ClassCounts) -> None:
        changed = [[term, counts.texts[term], counts.heads[term]] for term in counts.changed]
        for start in range(0, len(changed), _COUNTED_AT_ONCE):
            transaction.rows(
                f"UNWIND $rows AS row MERGE (t:{self._store}_term {{class: $key, term: row[0]}})"
                " SET t.texts = coalesce(t.texts, 0) + row[1], t.heads = coalesce(t.heads, 0) + row[2]"
                " WITH t WHERE t.texts <= 0 AND t.heads <= 0 DELETE t",
                key=key,
                rows=changed[start : start + _COUNTED_AT_ONCE],
            )

    def _delete(self, condition: str, **values: int) -> None:
        statement = f"MATCH (n:{self._store}) WHERE {condition} WITH n LIMIT {_DELETED_AT_ONCE} DETACH DELETE n"
        deleted = _DELETED_AT_ONCE
        while deleted == _DELETED_AT_ONCE:
            with self.writing() as transaction:
                ((deleted,),) = transaction.rows(f"{statement} RETURN count(*)", **values)
