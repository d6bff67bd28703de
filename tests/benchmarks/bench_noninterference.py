"""What hidden text does to an open answer: with one index for all, and with one for each access class.

    python tests/benchmarks/bench_noninterference.py [SEARCHES]

A domain registers `policies` alone; another, which the caller may not know, holds `web_notes` in the same base. Forty
memos with one word are written to the hidden source. The first table is of a base that puts all documents into one
partition, the second of the base as it is. Then the time of a search is told before and after the memos, of a question
in the words of the memos and of one in others, and of a domain that is denied and one that there is not: no time is
hidden, and none has a pass mark.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from context_engine.core.engine import Engine
from context_engine.core.models import Chunk, Principal, SearchRequest
from context_engine.errors import UnknownDomain
from context_engine.evaluation.access_trial import StoreTrial
from context_engine.testing.noninterference import ChangeKind, HiddenChange, HiddenDocument, HiddenPlace
from context_engine.wiring.build import build_engine
from context_engine.wiring.setup import Setup, load_setup

OPEN = "version: 1\ndomain: OPEN\nsources:\n  - {id: policies, type: bank_sop}\n"
CLOSED = "version: 1\ndomain: CLOSED\naccess: {roles: [research]}\nsources:\n  - {id: web_notes, type: general_web}\n"
TEXTS = {
    "Hotels": "A hotel is booked by the desk, and its bill is claimed afterwards.",
    "Limits": "The daily limit is set by the committee and reviewed every quarter.",
}
CLERK = Principal(id="clerk")


def document(place: HiddenPlace, name: str, text: str, title: str = "") -> HiddenChange:
    """Return the change that writes a document."""
    chunk = Chunk(content=text, title=title or None)
    made = HiddenDocument(place=place, document_id=name, chunks=(chunk,))
    return HiddenChange(number=0, kind=ChangeKind.INSERT, place=place, now=made)


@contextmanager
def bank() -> Iterator[tuple[Setup, Path]]:
    """Yield a configuration of the two domains, with two open documents."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "manifests").mkdir()
        (folder / "manifests/open.yaml").write_text(OPEN, "utf-8")
        (folder / "manifests/closed.yaml").write_text(CLOSED, "utf-8")
        yield load_setup(env={}, cwd=folder), folder / "data"


def with_memos(setup: Setup, data: Path, word: str) -> None:
    """Write the open documents, and forty memos with a word; none where it is ""."""
    trial = StoreTrial.__new__(StoreTrial)
    with patch.object(StoreTrial, "_rebuild"), patch.object(StoreTrial, "_leave_deleted"):
        trial.__init__(setup, "local", data, {})  # type: ignore[misc]
    hidden, shown = HiddenPlace("CLOSED", "web_notes"), HiddenPlace("OPEN", "policies")
    memos = [document(hidden, f"memo-{number}", f"Memo {number}: {word}") for number in range(40)] if word else []
    trial.change([*(document(shown, title, text, title) for title, text in TEXTS.items()), *memos])
    trial.close()


def rows(engine: Engine) -> list[str]:
    """Return the open answer, a line for each chunk."""
    result = engine.search(SearchRequest(query="hotel limit", domain="OPEN", principal=CLERK))
    return [
        f"{one.chunk.title:7} final {one.final:.4f} relevance {one.relevance:.4f} bm25 {one.chunk.scores[0].value:.3f}"
        for one in result.chunks
    ]


def table(title: str, *, one_index: bool) -> None:
    """Print the open answer beside three hidden sources."""
    print(f"\n{title}")
    for word in ("", "hotel", "limit"):
        with bank() as (setup, data):
            name = "context_engine.adapters.sources.local.writer.partition_key"
            if one_index:
                with patch(name, lambda *_: 1):
                    with_memos(setup, data, word)
            else:
                with_memos(setup, data, word)
            with build_engine(setup, data_dir=data) as engine:
                print(f"  {f'40 memos with {word}' if word else 'nothing hidden':24}", " | ".join(rows(engine)))


def median_ms(ask: Callable[[], object], searches: int) -> float:
    """Return the median time of a call, in milliseconds."""
    times = []
    for _ in range(searches):
        begun = time.perf_counter()
        ask()
        times.append(1000.0 * (time.perf_counter() - begun))
    return statistics.median(times)


def times(searches: int) -> None:
    """Print the time of searches."""

    def refused(engine: Engine, domain: str) -> None:
        try:
            engine.search(SearchRequest(query="hotel limit", domain=domain, principal=CLERK))
        except UnknownDomain:
            return

    for word in ("", "hotel"):
        with bank() as (setup, data):
            with_memos(setup, data, word)
            with build_engine(setup, data_dir=data) as engine:
                print(f"\n{'40 memos with hotel' if word else 'nothing hidden'}: median of {searches} searches, ms")
                for query in ("hotel", "night approval"):
                    request = SearchRequest(query=query, domain="OPEN", principal=CLERK)
                    print(f"  {query!r:20} {median_ms(lambda asked=request: engine.search(asked), searches):.3f}")
                for domain in ("CLOSED", "NONE"):
                    took = median_ms(lambda name=domain: refused(engine, name), searches)
                    print(f"  domain {domain:13} {took:.3f}")


if __name__ == "__main__":
    table("one index for all", one_index=True)
    table("an index for each access class", one_index=False)
    times(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
