"""The output of the tool `answer`: the text with its labels, each sentence with its verdict, and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from context_engine.answer.answering import Stated
from context_engine.answer.composed import Answer, sentence_text, separator
from context_engine.answer.conflicts import Conflict, Side
from context_engine.answer.contract import AnswerResponse, citation_line, response_of
from context_engine.answer.values import AnswerRefusal, Verdict
from context_engine.apps.dify.answer import ToolOutput, lines, search_answer
from context_engine.apps.dify.dify_json import fitted, plain
from context_engine.apps.dify.form import SearchForm
from context_engine.apps.dify.node_output import inert_values, subject_missing
from context_engine.apps.dify.reader_texts import Tongue, reader_text
from context_engine.core.context.fence import inert
from context_engine.core.protocols import Mask

_NO_SUBJECT: Final = "no_subject"
_TRANSLATED: Final = frozenset({"no_match", "out_of_scope", "incomplete", "no_sentence", "unsupported"})
_OF_THE_SEARCH: Final = ("result", "status", "decision", "warnings", "warnings_text", "search_id", "question")
"""The variables that `answer` shares with `search`."""


def stated_text(stated: Stated, tongue: Tongue, *, demo: bool) -> str:
    """Return a sentence as it is streamed: with its labels, and with what stands between it and the one before."""
    answer, number, sentence = stated
    text = inert(sentence_text(sentence, marked=False))
    if answer.policy == "mark" and sentence.verdict is not Verdict.SUPPORTED:
        text = f"{text} {reader_text(f'verdict_{sentence.verdict}', tongue)}"
    return _fitted_text((_label_of_the_demo(tongue, demo) if number == 1 else separator(answer)) + text)


def answer_output(answer: Answer, stated: str, form: SearchForm, *, demo: bool, mask: Mask | None) -> ToolOutput:
    """Return the output of a finished answer.

    Args:
        stated: the sentences as they were streamed, joined; `answer` begins with them.
        form: of the search.
        demo: whether the knowledge is the fictitious bank's.
        mask: masks personal data if the domain sets `mask_contexts`.

    Raises:
        MaskingError: a masker failed.
    """
    refusal, tongue = answer.refusal, form.tongue
    without_subject = refusal is not None and refusal.code == _NO_SUBJECT
    searched = search_answer(
        answer.result,
        demo=demo,
        notices=form.notices,
        register_required=form.register_required,
        mask=mask,
        read=lambda *_, **__: answer.context,  # it is recorded already
        tongue=tongue,
        question="needs_subject" if without_subject else "complete",
    )
    response = response_of(answer, demo=demo)
    published = _published(response, with_citations=not without_subject)
    conflicts = [inert(_conflict_text(conflict, tongue)) for conflict in answer.conflicts]
    text = stated if refusal is None else _label_of_the_demo(tongue, demo) + _refused(refusal, tongue)
    text = "\n\n".join([text, *map(_fitted_text, conflicts)])
    own = answer.warnings[len(answer.result.warnings) :]
    warnings = fitted("warnings", plain([*searched.variables["warnings"], *inert_values(own)])).value or []
    variables = {
        **{name: searched.variables[name] for name in _OF_THE_SEARCH},
        "answer": text,
        "refused": "" if refusal is None else refusal.code,
        "sentences": _fitted("sentences", [_sentence(sentence) for sentence in published["sentences"]]),
        "citations": _fitted("citations", published["citations"]),
        "citations_text": _citations_text(response),
        "conflicts_text": lines("conflicts_text", conflicts),
        "searched": plain(response.question),
        "answer_id": answer.answer_id,
        "warnings": warnings,
        "warnings_text": lines("warnings_text", warnings),
    }
    whole = _fitted("json", {**published, "warnings": warnings}) or {}
    return ToolOutput(text=text, json={**whole, "caller": searched.json["caller"]}, variables=variables)


def _published(response: AnswerResponse, *, with_citations: bool) -> dict[str, Any]:
    """Return the published answer; its citations without their mark, which only a context may have."""
    published = response.model_dump(mode="json")
    rows = published["citations"] if with_citations else []
    return {**published, "citations": [_without_mark(row) for row in rows]}


def _without_mark(citation: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in citation.items() if name != "attribution"}


def _sentence(sentence: Mapping[str, Any]) -> dict[str, Any]:
    quotes = [{name: quote[name] for name in ("label", "text")} for quote in sentence["quotes"]]
    return {"text": sentence["text"], "verdict": sentence["verdict"], "labels": sentence["labels"], "quotes": quotes}


def _citations_text(response: AnswerResponse) -> str:
    """Return the cited passages as a list; if the question is refused, nothing is cited."""
    cited = () if response.refusal is not None else response.citations
    return lines("citations_text", [inert(citation_line(citation)) for citation in cited])


def _refused(refusal: AnswerRefusal, tongue: Tongue) -> str:
    """Return the sentence of a refusal; one that is not ours stays English."""
    if refusal.code == _NO_SUBJECT:
        return subject_missing(tongue).content
    return reader_text(f"refused_{refusal.code}", tongue) if refusal.code in _TRANSLATED else refusal.message


def _conflict_text(conflict: Conflict, tongue: Tongue) -> str:
    """Return a disagreement in words, with both quotes and which of them yields."""
    codes = ", ".join(dict.fromkeys(difference.code for difference in conflict.differences))
    first, second = _side(conflict.first, tongue), _side(conflict.second, tongue)
    yields = {"first": conflict.first, "second": conflict.second}.get(conflict.yields)
    end = (
        reader_text("conflict_undecided", tongue)
        if yields is None
        else reader_text("conflict_yields", tongue, label=yields.quote.label)
    )
    return reader_text("conflict", tongue, codes=codes, first=first, second=second, end=end)


def _side(side: Side, tongue: Tongue) -> str:
    tier, date = side.tier, side.effective_from
    return reader_text(
        "conflict_side",
        tongue,
        label=side.quote.label,
        tier="" if tier is None else reader_text("conflict_tier", tongue, tier=str(tier)),
        date="" if date is None else reader_text("conflict_date", tongue, date=date),
        quote=" ".join(side.quote.text.split()),
    )


def _label_of_the_demo(tongue: Tongue, demo: bool) -> str:
    return f"{reader_text('demo', tongue)}\n\n" if demo else ""


def _fitted(name: str, value: Any) -> Any:
    return fitted(name, plain(inert_values(value))).value


def _fitted_text(text: str) -> str:
    return str(fitted("answer", plain(text)).value or "")
