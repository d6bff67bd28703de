"""Many clients at once, a source that goes wrong at random and an ingest beside them: no wrong answer, and no leak."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.service_under_load import Load

MOST_THREADS, MOST_FILES, MOST_GROWTH_KIB = 150, 200, 150 * 1024


@pytest.mark.slow
def test_a_service_under_load_answers_rightly_and_holds_no_more_than_it_did(tmp_path: Path) -> None:
    seen = Load(tmp_path, seconds=12.0, clients=32).run()
    assert seen.wrong == []
    assert seen.statuses[200] > 0 and seen.ingests > 1
    assert {one.partition(",")[0] for one in seen.states} == {"complete", "degraded"}
    assert seen.recorded >= len(seen.ids)
    first, last = seen.held[0], seen.held[-1]
    assert max(one[1] for one in seen.held) <= MOST_THREADS
    assert max(one[2] for one in seen.held) <= MOST_FILES
    assert last[0] - first[0] <= MOST_GROWTH_KIB
    assert seen.code == 0
