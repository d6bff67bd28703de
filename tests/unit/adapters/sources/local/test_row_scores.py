"""What rows score is asked of the index in one call for all sources of a search."""

from __future__ import annotations

from pathlib import Path

from context_engine.adapters.sources.local import LocalBase, SearchOptions
from context_engine.adapters.sources.local.candidates import scores_in
from context_engine.adapters.sources.local.queries import text_query
from context_engine.core.models import Chunk

TEXTS = ("limit desk open", "limit book", "haircut limit limit book open", "open book fee")


def test_rows_asked_for_together_score_as_each_by_itself(folder: Path) -> None:
    with LocalBase.open(folder, create=True) as base:
        with base.writer() as writer:
            for number, text in enumerate(TEXTS):
                writer.put(f"source-{number % 2}", f"doc-{number}", "", "1", [Chunk(content=text, chunk_id=text)])
        question = text_query("limit haircut", SearchOptions())
        assert question is not None
        with base._viewer.view() as view:
            rids = [rid for (rid,) in view.connection.execute("SELECT rid FROM chunks ORDER BY rid")]
            single = {rid: score for one in rids for rid, score in scores_in(view, question.text, [one]).items()}
            assert sorted(single) == rids[:3]  # the fourth text holds nothing of the question
            assert scores_in(view, question.text, rids) == single
            assert scores_in(view, question.text, []) == {}
