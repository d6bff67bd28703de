"""Term statistics: of two numbers for one thing the higher, whatever their order."""

from context_engine.core.models import TermStatistics


def test_two_answers_from_one_collection_are_one():
    first = TermStatistics(collection="base", chunks=10, document_frequency={"limit": 3, "fee": 1})
    second = TermStatistics(collection="base", chunks=12, document_frequency={"limit": 4, "cap": 0})
    merged = first.merged(second)
    assert merged == second.merged(first)
    assert (merged.collection, merged.chunks) == ("base", 12)
    assert merged.document_frequency == {"limit": 4, "fee": 1, "cap": 0}
