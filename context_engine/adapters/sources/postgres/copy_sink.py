"""Writing of documents that come from another store, with their vectors and calibrations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from context_engine.adapters.sources.postgres.calibrations import extent_of
from context_engine.adapters.sources.postgres.connection import Session
from context_engine.adapters.sources.postgres.schema import class_key
from context_engine.adapters.sources.postgres.sink import PostgresSink
from context_engine.core.models import ClassCalibration, WholeDocument


class PostgresCopySink(PostgresSink):
    """A sink of a store that is also a `CopySink`."""

    def accept_vectors(self, model_id: str, dimension: int) -> bool:
        """Prepare for vectors of another store; return whether the server has pgvector (`CopySink`)."""
        with self._servers.failures():
            self._begin()
            return self._vectors.accept(model_id, dimension)

    def put_stored(self, source_id: str, document: WholeDocument) -> None:
        """Write or replace a document of another store (`CopySink`); headings that are not searched get no vectors."""
        with self._servers.failures():
            row, rids, searched = self._write(
                source_id, document.key, document.content_hash, document.chunks, document.indexed_at
            )
            vectors = zip(rids, document.vectors)
            self._vectors.keep(row, [(rid, some) for rid, some in vectors if rid in searched])
        self._known(source_id)[document.key] = document.content_hash

    def finish_copy(self, domain: str, source_ids: Sequence[str], calibrations: Sequence[ClassCalibration]) -> None:
        """Commit, build the indexes of large classes, and replace the calibrations if any are given (`CopySink`)."""
        with self._servers.failures():
            self._begin()
            keep_calibrations(self._session, domain, source_ids, calibrations)
            self.commit()
            self._finish()


def keep_calibrations(
    session: Session, domain: str, source_ids: Sequence[str], found: Sequence[ClassCalibration]
) -> None:
    """Replace the calibrations of a domain, if any are given; they count as measured on the documents as they are.

    Args:
        session: the writer's, in a transaction.
        source_ids: the domain's sources.
    """
    if found:
        session.execute("DELETE FROM calibrations WHERE domain = %s", (domain,))
    for access, calibration in found:
        key = class_key(session, access)
        extent = extent_of(session, key, source_ids)
        session.execute(
            "INSERT INTO calibrations (domain, scorer_id, class_key, calibration, extent) VALUES (%s, %s, %s, %s, %s)",
            (domain, calibration.model_id, key, json.dumps(asdict(calibration)), list(extent)),
        )
