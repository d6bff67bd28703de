"""A search as its page shows it: the answer with links to its quotes, the passages, and why they stand as they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from context_engine.answer.composed import Answer
from context_engine.answer.conflicts import Conflict, Side
from context_engine.answer.values import Quote
from context_engine.apps.web.addresses import document_address
from context_engine.apps.web.charts import FunnelBar, funnel_bars
from context_engine.apps.web.naming import document_name, heading, location
from context_engine.apps.web.result_words import (
    BARS,
    DECISIONS,
    STATUS,
    age_words,
    cautions,
    passage_facts,
    source_name,
)
from context_engine.core.context import for_a_model
from context_engine.core.models import Key, Outcome, RankedChunk, SearchResult, TrustClass
from context_engine.service.contract.explanation import Explanation
from context_engine.service.deployment import Deployment
from context_engine.service.explaining.explain import explained_result
from context_engine.service.explaining.words import reason_words


class QuoteLink(NamedTuple):
    """A quote of an answer.

    Attributes:
        label: of the passage, such as [1].
        name: of the passage, such as NPA-SOP-001 v3.2 §4.
        title: of its document; "" if the name includes it.
        address: of the document, with the quote marked; "" if the passage is unknown.
        tier: of the passage's source; None if the passage is unknown.
        untrusted: whether its source is unverified.
    """

    label: str
    text: str
    name: str = ""
    title: str = ""
    address: str = ""
    tier: int | None = None
    untrusted: bool = False


class ShownSentence(NamedTuple):
    """A sentence of an answer with one quote from each passage that it cites."""

    text: str
    verdict: str
    quotes: tuple[QuoteLink, ...]


class ShownSide(NamedTuple):
    """One side of a contradiction; `effective_from` is an ISO date."""

    quote: QuoteLink
    effective_from: str | None


class ShownConflict(NamedTuple):
    """Two passages that disagree; `yields` is first, second or undecided."""

    about: str
    first: ShownSide
    second: ShownSide
    yields: str


class AnswerView(NamedTuple):
    """An answer, from the search just made or from its record.

    Attributes:
        answer_id: of its record; "" if it has none.
        model: who wrote it; None: its sentences are quoted.
        refusal: why there is no answer; "" if there is one.
        withheld: number of sentences that were not supported.
        warnings: about the answer itself; a record keeps none.
    """

    answer_id: str
    model: str | None
    sentences: tuple[ShownSentence, ...]
    refusal: str
    withheld: int
    conflicts: tuple[ShownConflict, ...]
    warnings: tuple[str, ...] = ()


class PassageView(NamedTuple):
    """A passage of the result, with its names, its place and its facts for people."""

    chunk: RankedChunk
    name: str
    under: str
    source: str
    place: str
    age: str
    untrusted: bool
    bars: int
    address: str
    why: str
    facts: tuple[tuple[str, str], ...]


class SearchView(NamedTuple):
    """A search with everything its page shows.

    Attributes:
        left_out: (reason, number of candidates), the most frequent first.
        cautions: what a reader must know before the passages.
        is_recorded: whether it has a case in the review.
    """

    result: SearchResult
    told: Explanation
    decision: str
    status: str
    passages: tuple[PassageView, ...]
    left_out: tuple[tuple[str, int], ...]
    bars: tuple[FunnelBar, ...]
    cautions: tuple[str, ...]
    is_recorded: bool


def search_view(deployment: Deployment, result: SearchResult) -> SearchView:
    """Return a search as its page shows it; passages are masked if the domain masks contexts.

    Raises:
        MaskingError: a masker failed.
    """
    explanation = explained_result(deployment, result, recorded=deployment.ledger.recording, compared=False)
    shown = for_a_model(result, deployment.engine.mask)
    names = {source.source_id: source_name(source) for source in result.sources}
    why = {chunk.rank: chunk.why for chunk in explanation.shown}
    reasons = Counter(reason_words(fate.reason) for fate in result.fates if fate.outcome is not Outcome.RETURNED)
    return SearchView(
        result=shown,
        told=explanation,
        decision=DECISIONS[result.decision],
        status=STATUS[result.status],
        passages=tuple(
            _passage(chunk, names.get(chunk.source_id, chunk.source_id), why.get(chunk.rank, ""))
            for chunk in shown.chunks
        ),
        left_out=tuple(reasons.most_common()),
        bars=funnel_bars(explanation.funnel),
        cautions=tuple(cautions(shown)),
        is_recorded=deployment.ledger.recording,
    )


def _passage(chunk: RankedChunk, source: str, why: str) -> PassageView:
    name, title = document_name(chunk.chunk, chunk.chunk_id)
    under = [line for line in dict.fromkeys((title, heading(chunk.chunk))) if line and line not in name]
    return PassageView(
        chunk=chunk,
        name=name,
        under=" · ".join(under),
        source=source,
        place=location(chunk.chunk),
        age=age_words(chunk),
        untrusted=chunk.trust_class is TrustClass.UNTRUSTED,
        bars=BARS[chunk.confidence],
        address=passage_address(chunk),
        why=why,
        facts=tuple(passage_facts(chunk, source)),
    )


def passage_address(chunk: RankedChunk, quoted: str = "") -> str:
    """Return the address of a passage in its document, with a quote marked if one is given."""
    own = chunk.chunk
    return document_address(
        chunk.domain,
        chunk.source_id,
        own.document_id,
        chunk_id=chunk.chunk_id,
        version=own.document_version or "",
        quoted=quoted,
    )


def answer_view(answer: Answer) -> AnswerView:
    """Return the answer of a search just made."""
    chunks = _by_key(answer.result)
    evidence = {item.label: item for item in answer.evidence}

    def link(quotes: Sequence[Quote]) -> QuoteLink:
        known = evidence[quotes[0].label]
        return _link(known.label, _last_line(quotes, known.text), chunks.get((known.source_id, known.chunk_id)))

    return AnswerView(
        answer_id=answer.answer_id,
        model=None if answer.written is None or answer.mode != "model" else answer.written.model,
        sentences=tuple(
            ShownSentence(sentence.text, str(sentence.verdict), tuple(map(link, _by_label(sentence.quotes))))
            for sentence in answer.shown
        ),
        refusal="" if answer.refusal is None else answer.refusal.message,
        withheld=len(answer.sentences) - len(answer.shown),
        conflicts=tuple(
            _conflict(conflict, link([conflict.first.quote]), link([conflict.second.quote]))
            for conflict in answer.conflicts
        ),
        warnings=answer.own_warnings,
    )


def _by_label(quotes: Iterable[Quote]) -> list[list[Quote]]:
    groups: dict[str, list[Quote]] = {}
    for quote in quotes:
        groups.setdefault(quote.label, []).append(quote)
    return list(groups.values())


def _last_line(quotes: Sequence[Quote], text: str) -> str:
    """Return what a sentence quotes in the last line that it quotes: a row of a table, not the heads of its columns."""
    last = max(quotes, key=lambda quote: quote.start)
    begin = text.rfind("\n", 0, last.start) + 1
    return text[min(quote.start for quote in quotes if quote.start >= begin) : last.end]


def _conflict(conflict: Conflict, first: QuoteLink, second: QuoteLink) -> ShownConflict:
    def side(known: Side, quote: QuoteLink) -> ShownSide:
        return ShownSide(quote, known.effective_from)

    about = ", ".join(dict.fromkeys(difference.code for difference in conflict.differences))
    return ShownConflict(about, side(conflict.first, first), side(conflict.second, second), conflict.yields)


def recorded_answer(facts: Mapping[str, Any], words: Mapping[str, Any], result: SearchResult) -> AnswerView:
    """Return an answer from its record, which keeps no contradictions in words.

    Args:
        facts, words: of the record; see `answer_record`.
        result: of its search.
    """
    chunks = _by_key(result)
    shown = [fact["shown"] for fact in facts["sentences"]]
    sentences = [sentence for sentence, is_shown in zip(words["sentences"], shown, strict=True) if is_shown]
    return AnswerView(
        answer_id=facts["id"],
        model=facts["model"]["name"] if facts["mode"] == "model" and facts["model"] else None,
        sentences=tuple(_recorded_sentence(sentence, chunks) for sentence in sentences),
        refusal=words["refusal"] or "",
        withheld=len(shown) - len(sentences),
        conflicts=(),
    )


def _recorded_sentence(sentence: Mapping[str, Any], chunks: Mapping[Key, RankedChunk]) -> ShownSentence:
    longest: dict[str, Mapping[str, Any]] = {}
    for quote in sentence["quotes"]:
        known = longest.get(quote["label"])
        if known is None or len(quote["text"]) > len(known["text"]):
            longest[quote["label"]] = quote
    links = (
        _link(label, quote["text"], chunks.get((quote.get("source", ""), quote.get("chunk", ""))))
        for label, quote in longest.items()
    )
    return ShownSentence(sentence["text"], sentence["verdict"], tuple(links))


def _link(label: str, text: str, chunk: RankedChunk | None) -> QuoteLink:
    if chunk is None:
        return QuoteLink(label, text)
    name, title = document_name(chunk.chunk, chunk.chunk_id)
    untrusted = chunk.trust_class is TrustClass.UNTRUSTED
    return QuoteLink(label, text, name, title, passage_address(chunk, text), chunk.authority_tier, untrusted)


def _by_key(result: SearchResult) -> dict[Key, RankedChunk]:
    return {(chunk.source_id, chunk.chunk_id): chunk for chunk in result.chunks}
