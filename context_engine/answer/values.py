"""The parts of an answer: evidence from a search, sentences with their quotes, verdicts and refusals."""

from __future__ import annotations

from enum import StrEnum
from pathlib import PurePath
from typing import NamedTuple

from context_engine.core.models import Context, ContextBlock, Decision, RankedChunk, SearchResult
from context_engine.core.policy.injection import INJECTION_SUSPECTED


class Evidence(NamedTuple):
    """A passage that an answer may quote.

    Attributes:
        label: "[1]", "[2]" ..., as a model and a reader see it.
        text: the passage as it was shown and recorded, masked where the domain masks.
        headings: the document's title, then the sections above the passage, outermost first.
        rank: 1-based, in the order of the search.
        absolute: [0, 1], the absolute signal of the search; None if unknown.
        tier: 1 (system of record) to 5 (web); None if unknown.
        effective_from: ISO date on which the passage came into force; None if unknown.
        file: name of the document's file, without folders and suffixes; empty if it has none.
    """

    label: str
    source_id: str
    chunk_id: str
    text: str
    headings: tuple[str, ...]
    rank: int
    absolute: float | None
    tier: int | None
    effective_from: str | None
    file: str = ""


class Quote(NamedTuple):
    """A verbatim part of a passage: `text == evidence.text[start:end]`.

    Attributes:
        label: of the evidence.
        start, end: characters of the evidence's text, 0-based, end exclusive.
    """

    label: str
    start: int
    end: int
    text: str


class Verdict(StrEnum):
    """What the check found about a sentence.

    SUPPORTED: its quotes hold everything it states. PARTLY: nothing contradicts it, and some of it is not in its
    quotes. UNSUPPORTED: a quote contradicts it, or a number, date, modal, negation or name of it stands in no quote.
    UNCITED: it cites nothing.
    """

    SUPPORTED = "supported"
    PARTLY = "partly"
    UNSUPPORTED = "unsupported"
    UNCITED = "uncited"


class SentenceFinding(NamedTuple):
    """A reason for a verdict.

    Attributes:
        code: unknown_label, quote_not_found, number, date, currency, unit, modal, negation, name, condition, bound,
            altered, coverage ...
        detail: the words concerned, in a sentence for people.
    """

    code: str
    detail: str


class Sentence(NamedTuple):
    """A sentence of an answer.

    Attributes:
        text: without citation labels.
        quotes: what it rests on; a quote of its lead-in, table heads or condition stands before the quote itself.
        coverage: [0, 1], the share of the sentence's information that its quotes hold; 1.0 for a verbatim sentence.
        findings: why the verdict is not SUPPORTED; empty otherwise.
    """

    text: str
    quotes: tuple[Quote, ...]
    verdict: Verdict
    coverage: float
    findings: tuple[SentenceFinding, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The cited labels, each once, in order."""
        return tuple(dict.fromkeys(quote.label for quote in self.quotes))


class AnswerRefusal(NamedTuple):
    """Why there is no answer.

    Attributes:
        code: no_match, out_of_scope, incomplete, no_sentence, unsupported, no_subject, cost_limit ...
        message: what is missing and what to do, in one or two sentences for people.
    """

    code: str
    message: str


class Extraction(NamedTuple):
    """The sentences that answer a question, or the reason why there are none.

    Attributes:
        wants: what the question asks for: duration, amount, number, date, role, place, definition, condition,
            rule (yes or no), list, reason, steps, fact ...
        sentences: best first; at least one, or a refusal.
    """

    wants: str
    sentences: tuple[Sentence, ...]
    refusal: AnswerRefusal | None


def evidence_of(result: SearchResult, context: Context) -> tuple[Evidence, ...]:
    """Return the evidence in a context of a result, one for each block, best first.

    Passages that read like instructions to a model are left out: nothing may rest on them. Outside the domain's scope
    there is no evidence.
    """
    if result.decision is Decision.OUT_OF_SCOPE:
        return ()
    chunks = {(chunk.source_id, chunk.chunk_id): chunk for chunk in result.chunks}
    pairs = ((block, _best(block, chunks)) for block in context.blocks)
    return tuple(_evidence(block, chunk) for block, chunk in pairs if INJECTION_SUSPECTED not in chunk.flags)


def _best(block: ContextBlock, chunks: dict[tuple[str, str], RankedChunk]) -> RankedChunk:
    return min((chunks[block.source_id, chunk_id] for chunk_id in block.chunk_ids), key=lambda chunk: chunk.rank)


def _evidence(block: ContextBlock, chunk: RankedChunk) -> Evidence:
    known = chunk.chunk
    return Evidence(
        label=block.label,
        source_id=block.source_id,
        chunk_id=chunk.chunk_id,
        text=block.text,
        headings=tuple(dict.fromkeys(filter(None, (known.title, *known.heading_path)))),
        rank=block.rank,
        absolute=chunk.absolute,
        tier=chunk.authority_tier,
        effective_from=None if known.effective_from is None else known.effective_from.isoformat(),
        file=PurePath(known.path or "").name.partition(".")[0],
    )
