"""The term statistics of a question and of its parts, fused into those of one answer."""

from context_engine.core.engine.admission import ValidatedAnswer
from context_engine.core.engine.recall import SourceReply
from context_engine.core.engine.source_calls import fused_reply
from context_engine.core.models import Chunk, TermStatistics


def reply(text, collection="base", **document_frequency):
    known = TermStatistics(collection=collection, chunks=10, document_frequency=document_frequency)
    return SourceReply(ValidatedAnswer((Chunk(content=text, chunk_id=text),), 0, 0, (), statistics=known), None, 1.0)


def fused(*replies):
    return fused_reply(replies, source_id="sop", top_k=5).answer.statistics


def test_the_terms_of_the_parts_are_known_too():
    whole, part = reply("a", limit=4), reply("b", limit=4, cap=1)
    assert fused(whole, part).document_frequency == {"limit": 4, "cap": 1}


def test_another_collection_is_not_mixed_in():
    whole, part = reply("a", limit=4), reply("b", "other", cap=1)
    assert fused(whole, part).document_frequency == {"limit": 4}


def test_a_whole_question_without_statistics_has_none():
    whole = reply("a", limit=4)
    whole = whole._replace(answer=whole.answer._replace(statistics=None))
    assert fused(whole, reply("b", cap=1)) is None
