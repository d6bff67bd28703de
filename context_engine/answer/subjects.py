"""The subjects of a sentence's rules: what stands before its modals, part by part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from context_engine.answer.clauses import Clause
from context_engine.answer.reading import CONTENT, MeaningKind, MeaningToken, content_keys
from context_engine.answer.values import SentenceFinding

_END: Final = MeaningToken(MeaningKind.BREAK, ".", ".")


def other_subject(claim: Sequence[MeaningToken], clause: Clause) -> Iterator[SentenceFinding]:
    """Yield a finding if the sentence says of another subject what the clause says must or may be done."""
    subject, predicate = _divided(claim)
    known = content_keys(clause.tokens) | clause.before | (clause.context if clause.cells else frozenset())
    for token in subject:
        if token.kind in CONTENT and token.key not in known:
            yield SentenceFinding("subject", f'the passage does not say this of "{token.written}"')
    if clause.cells or not predicate:
        return
    before = claim[: claim.index(subject[0])] if subject else ()
    claimed, done = content_keys(subject) or content_keys(before), content_keys(predicate)  # "it" stands for `before`
    has_subject = bool(content_keys(subject) or (subject and not claimed))
    rules = _rules(clause.own) if has_subject else [_divided(segment) for segment in segments(clause.own)]
    if not any(predicate_too for _, predicate_too in rules):
        return
    nearest, also_done = max(rules, key=lambda rule: len(content_keys(rule[1]) & done))
    acted_on = _other_party(also_done)
    if not (named := content_keys(nearest)) and nearest and content_keys(subject):  # a pronoun of the clause
        named = clause.before | clause.context
        acted_on = acted_on if _is_passive(predicate) else frozenset()
    if (named and not claimed & (named | acted_on)) or _is_cut_short(subject, nearest):
        yield SentenceFinding("subject", f'the passage says it of "{" ".join(token.written for token in nearest)}"')


def _is_cut_short(subject: Sequence[MeaningToken], whole: Sequence[MeaningToken]) -> bool:
    """Return whether a subject ends within that of the clause: "the insurer", for "the insurer's capital"."""
    *_, last = ("", *(token.key for token in subject if token.kind in CONTENT))
    following = [after for token, after in pairwise((*whole, _END)) if token.key == last]
    keys = content_keys(subject)
    return bool(following) and all(after.kind in CONTENT and after.key not in keys for after in following)


def _other_party(predicate: Sequence[MeaningToken]) -> frozenset[str]:
    """Return the subject of a predicate turned round: the agent of a passive, or what its act is done to."""
    if _is_passive(predicate):
        by = next((place for place, token in enumerate(predicate) if token.key == "by"), len(predicate))
        return content_keys(predicate[by:])
    act = next((token.key for token in predicate if token.kind in CONTENT), "")
    return content_keys(predicate) - {act}


def _is_passive(predicate: Sequence[MeaningToken]) -> bool:
    return any(token.key == "be" for token in predicate[:2])


def _divided(tokens: Sequence[MeaningToken]) -> tuple[Sequence[MeaningToken], Sequence[MeaningToken]]:
    """Return what stands before the first modal, from the last comma on, and what follows; empty without a modal."""
    start = 0
    for place, token in enumerate(tokens):
        if token.kind is MeaningKind.MODAL:
            return tokens[start:place], tokens[place + 1 :]
        if token.kind is MeaningKind.BREAK and token.key not in ("and", "or"):
            start = place + 1
    return (), ()


def _rules(tokens: Sequence[MeaningToken]) -> list[tuple[Sequence[MeaningToken], Sequence[MeaningToken]]]:
    """Return what stands before and after the modal of each segment; after a comma the subject stands before it."""
    out: list[tuple[Sequence[MeaningToken], Sequence[MeaningToken]]] = []
    earlier: list[MeaningToken] = []
    for segment in segments(tokens):
        subject, predicate = _divided(segment)
        has_own = any(token.kind is not MeaningKind.BREAK for token in subject)
        out.append((subject if has_own or not predicate else earlier, predicate))
        goes_on = not predicate and segment[0].kind is not MeaningKind.CONDITION
        earlier = [*(earlier if goes_on else ()), *segment]
    return out


def segments(tokens: Sequence[MeaningToken]) -> list[Sequence[MeaningToken]]:
    """Return the parts of a sentence between its commas, coordinators and conditions."""
    cuts = [
        place
        for place, token in enumerate(tokens)
        if token.kind is MeaningKind.BREAK or token.kind is MeaningKind.CONDITION
    ]
    return [tokens[start:end] for start, end in zip([0, *cuts], [*cuts, len(tokens)]) if start < end]
