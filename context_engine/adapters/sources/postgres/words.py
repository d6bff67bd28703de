"""Writes the words of chunks, by which searches find them, and counts them for each access class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from context_engine.adapters.sources.postgres.attributes import (
    Attributes,
    lexemes_of,
    parts_of,
    read_row,
    tsvector,
)
from context_engine.adapters.sources.postgres.connection import Session, copy_rows
from context_engine.adapters.sources.postgres.vectors import DocumentRow
from context_engine.adapters.sources.stores.chunk_rows import defined_terms, index_texts, written_words
from context_engine.adapters.sources.stores.question import StoredTerms
from context_engine.adapters.sources.stores.term_counts import WRITTEN, TermCounts
from context_engine.core.models import Chunk

_COLUMNS: Final = "class_key, rid, doc_key, source_key, section, from_day, to_day, attributes, parts, terms"
_COUNTED: Final = "parts, tsvector_to_array(terms)"


class WordWriter:
    """Writes, moves and removes the words of documents in the transaction of a session.

    Args:
        session: of the writer; the tables are up to date.
    """

    def __init__(self, session: Session) -> None:
        self._session, self._attributes, self._counts = session, Attributes(session), TermCounts()

    def write(self, document: DocumentRow, rids: Sequence[int], chunks: Sequence[Chunk]) -> set[int]:
        """Write the words of a document's chunks, and return the rows that have them.

        Bare headings are not searched, unless the document holds nothing else.

        Args:
            rids: the row of each chunk.
        """
        texts = index_texts(chunks)
        whole = all(text.bare for text in texts)
        values = []
        numbers = self._attributes.numbers(chunks)
        for rid, chunk, text, attributes in zip(rids, chunks, texts, numbers, strict=True):
            if text.bare and not whole:
                continue
            stored = StoredTerms.of(text)
            parts, lexemes = parts_of(stored, defined_terms(chunk)), lexemes_of(stored, written_words(chunk))
            self._count(document.class_key, parts, lexemes, sign=1)
            values.append(
                (document.class_key, rid, document.doc_key, document.source_key, rids[text.first],
                 chunk.effective_from, chunk.effective_to, attributes, parts, tsvector(lexemes))
            )  # fmt: skip
        copy_rows(self._session, "words", _COLUMNS, values)
        return {row[1] for row in values}

    def remove(self, doc_key: int) -> None:
        """Remove the words of a document."""
        statement = f"DELETE FROM words WHERE doc_key = %s RETURNING class_key, {_COUNTED}"
        for key, *counted in self._session.execute(statement.encode(), (doc_key,)):
            self._count(key, *counted, sign=-1)

    def move(self, doc_keys: Sequence[int], key: int, to: int) -> None:
        """Move the words of documents from one access class to another."""
        statement = f"UPDATE words SET class_key = %s WHERE doc_key = ANY(%s) RETURNING {_COUNTED}"
        for counted in self._session.execute(statement.encode(), (to, list(doc_keys))):
            self._count(key, *counted, sign=-1)
            self._count(to, *counted, sign=1)

    def write_counts(self) -> None:
        """Add what has changed since the last call to `terms` and to the sizes of classes."""
        for key, counts in self._counts.changes():
            self._session.execute(
                "UPDATE classes SET texts = texts + %s, words = words + %s WHERE class_key = %s",
                (counts.number, counts.words, key),
            )
            changed = counts.changed
            self._session.execute(
                "INSERT INTO terms (class_key, term, texts, heads)"
                " SELECT %s, * FROM unnest(%s::text[], %s::bigint[], %s::bigint[])"
                " ON CONFLICT (class_key, term) DO UPDATE SET texts = terms.texts + excluded.texts,"
                " heads = terms.heads + excluded.heads",
                (key, changed, [counts.texts[term] for term in changed], [counts.heads[term] for term in changed]),
            )
        self._counts = TermCounts()

    def _count(self, key: int, parts: str, lexemes: Sequence[str], *, sign: int) -> None:
        row = read_row(0, 0, 0, 0, parts)
        written = [lexeme for lexeme in lexemes if lexeme.startswith(WRITTEN)]
        self._counts.add(key, row.body, row.head, sign, written)
