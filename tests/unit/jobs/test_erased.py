"""A job that is deleted, and erased from the ledger, leaves its words in no file of the deployment."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from context_engine.audit.ledger.erase import Wanted, erase
from context_engine.core.models import SearchRequest
from context_engine.jobs.owned import OwnedJobs
from context_engine.testing.fakes import FixedClock
from context_engine.wiring.audit import open_ledger
from context_engine.wiring.audit_writers import close_writers
from tests.unit.service.small_bank import CLERK, caller, searched, small_bank

WORDS = ("Zanzibarite", "Quillfeather", "Marzipanov", "Obsidianette")


def candidates(ledger: Path) -> Iterator[bytes]:
    with closing(sqlite3.connect(ledger)) as file:
        for (data,) in file.execute("SELECT data FROM addendum WHERE kind = 'candidates'").fetchall():
            yield zlib.decompressobj().decompress(data[4:])  # behind its length


def holding(folder: Path) -> dict[str, list[str]]:
    """Return the files that hold each word, in any case; the ledger's packed candidates count as a file."""
    texts = {path.name: path.read_bytes().lower() for path in folder.rglob("*") if path.is_file()}
    texts["candidates"] = b"".join(candidates(folder / "ledger.db")).lower()
    return {word: [name for name, text in texts.items() if word.lower().encode() in text] for word in WORDS}


@pytest.mark.slow
def test_no_file_keeps_a_word_of_an_erased_job(tmp_path: Path) -> None:
    agreement, question, risk, rule = WORDS
    (tmp_path / "given").mkdir()
    (tmp_path / "given/a.md").write_text(f"# Agreement\n\nThe facility limit of {agreement} Ltd is USD 5 million.\n")
    bank = small_bank(tmp_path, settings={"audit": {"audit_mode": "required", "audit_timeout_s": 60.0}})
    jobs = OwnedJobs(bank, caller(CLERK))
    job_id = jobs.start("Review").job_id
    jobs.add_documents(job_id, tmp_path / "given")
    (tmp_path / "given/a.md").unlink()
    jobs.add(job_id, "risk", f"{risk} has not signed.")
    jobs.add(job_id, "constraint", f"Nothing about {rule}.")
    jobs.run(job_id, f"What is the facility limit that {question} asked for?")
    request = SearchRequest(query=f"When must {question} report a loss event?", domain="ORM", principal=CLERK)
    jobs.ask(job_id, request)
    kept = searched(bank, CLERK)
    bank.close()
    close_writers()
    assert all(holding(tmp_path).values())

    jobs.delete(job_id)
    with closing(open_ledger(bank.setup, bank.data_dir)) as ledger:
        erased = erase(
            ledger, Wanted(sources=(job_id,)), reason="the mandate has ended", by="clerk", clock=FixedClock()
        )
        again = erase(ledger, Wanted(sources=(job_id,)), reason="once more", by="clerk", clock=FixedClock())
    assert (erased.questions > 0, erased.texts, erased.overwritten) == (True, 1, True)
    assert (again.questions, again.texts, again.cards) == (0, 0, 0)
    assert holding(tmp_path) == {word: [] for word in WORDS}

    reopened = small_bank(tmp_path, settings={"audit": {"audit_mode": "off"}})
    assert [chunk.content for chunk in searched(reopened, CLERK).chunks] == [chunk.content for chunk in kept.chunks]
    assert all(word not in chunk.content for word in WORDS for chunk in searched(reopened, CLERK, word).chunks)
    reopened.close()
