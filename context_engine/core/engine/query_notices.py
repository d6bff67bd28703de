"""What a reader must know of how an answer came from the question: other spelling, phrases not found, narrowing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from context_engine.core.engine.search_plan import SearchPlan
from context_engine.core.engine.stage_two_output import StageTwoOutput
from context_engine.core.models import Notice, NoticeCode, PreparedQuery, RawAnswer
from context_engine.core.policy.filters import ALWAYS_KNOWN, named_fields, own_fields
from context_engine.core.query import phrases_held
from context_engine.core.query.spelling import reworded
from context_engine.core.ranking.analysed import AnalysedText
from context_engine.core.ranking.candidates import label_of
from context_engine.errors import did_you_mean

_MOST_FIELDS: Final = 40


def about_query(plan: SearchPlan, answers: Sequence[RawAnswer], output: StageTwoOutput) -> Iterator[Notice]:
    """Yield notices of the spelling, of quoted phrases, and of what narrowed the answer."""
    if plan.prepared is not None:
        yield from _about_spelling(plan.prepared)
        yield from _about_phrases(plan.prepared, answers)
    yield from _about_filters(plan, answers, output)
    yield from _about_dates(plan, output)


def _about_spelling(query: PreparedQuery) -> Iterator[Notice]:
    if not query.suggestions:
        return
    words = [{"written": written, "known_as": known} for written, known in query.suggestions]
    if query.corrected:
        message = f'nothing relevant was found for "{query.original}": searched for "{query.text}" instead'
        yield Notice(NoticeCode.QUERY_CORRECTED, "", message, {"searched": query.text, "words": words})
    else:
        suggested = reworded(query.text, query.suggestions)
        message = f'did you mean "{suggested}"?'
        yield Notice(NoticeCode.SPELLING_SUGGESTED, "", message, {"suggested": suggested, "words": words})


def _about_phrases(query: PreparedQuery, answers: Sequence[RawAnswer]) -> Iterator[Notice]:
    if not query.phrases:
        return
    chunks = [chunk for answer in answers for chunk in answer.chunks]
    texts = [AnalysedText(chunk.content) for chunk in chunks]
    held = phrases_held(query.phrases, texts, [AnalysedText(label_of(chunk)) for chunk in chunks])
    for phrase in query.phrases:
        if phrase not in held:
            message = f'no text that was found holds the phrase "{phrase}"'
            yield Notice(NoticeCode.PHRASE_NOT_FOUND, "", message, {"phrase": phrase})


def _about_filters(plan: SearchPlan, answers: Sequence[RawAnswer], output: StageTwoOutput) -> Iterator[Notice]:
    if plan.request.filters is None:
        return
    per_source = [fields for answer in answers if (fields := _fields_of(answer))]
    known = frozenset().union(*per_source)
    for name in named_fields(plan.request.filters):
        if known and name not in known | ALWAYS_KNOWN:
            yield _unknown_field(name, sorted(known))
    if not output.scope_tested:
        message = "no candidate passed the filter: check the names of its fields and its values"
        yield Notice(NoticeCode.FILTER_LEFT_NOTHING, "filters", message)


def _unknown_field(name: str, known: Sequence[str]) -> Notice:
    near = did_you_mean(name, sorted({*known, *ALWAYS_KNOWN}))
    listed = ", ".join(known[:_MOST_FIELDS]) + (" …" if len(known) > _MOST_FIELDS else "")
    message = f"no source is known to have the field {name!r} that the filter names.{near} Fields: {listed}"
    detail = {"field": name, "fields": list(known[:_MOST_FIELDS])}
    return Notice(NoticeCode.FILTER_FIELD_UNKNOWN, "filters", message, detail)


def _fields_of(answer: RawAnswer) -> frozenset[str]:
    """Return the fields that a source says it has, else those of the chunks it gave."""
    if answer.filter_fields is not None:
        return frozenset(answer.filter_fields)
    return frozenset(name for chunk in answer.chunks for name in own_fields(chunk))


def _about_dates(plan: SearchPlan, output: StageTwoOutput) -> Iterator[Notice]:
    as_of, undated = plan.request.as_of, sum("effective_unknown" in chunk.flags for chunk in output.chunks)
    if as_of is not None and undated:
        message = f"{undated} of the chunks carry no dates: whether they were in force on {as_of} is not known"
        detail = {"count": undated, "as_of": as_of.isoformat()}
        yield Notice(NoticeCode.DATES_UNKNOWN, "as_of", message, detail)
