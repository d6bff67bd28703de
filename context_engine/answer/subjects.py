"""Who acts in a sentence: the subjects of its rules, part by part, and the agents of a passive."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import dropwhile, pairwise, takewhile
from typing import Final

from context_engine.answer.clauses import Clause
from context_engine.answer.reading import CONTENT, END, PERSONS, MeaningKind, MeaningToken, Tokens, content_keys
from context_engine.answer.values import SentenceFinding

_LEAST_RESTRICTION: Final = 2
_STAND_FOR: Final = ("it", "they", "he", "she")
_PREPOSITIONS: Final = ("of", "in", "on", "for", "with", "from", "at", "about", "between")
_PLURAL: Final = ("they", "these", "those")
_MANY: Final = re.compile(r"[^sui]s$")
"""The end of a noun in the plural."""


def other_subject(claim: Tokens, clause: Clause) -> Iterator[SentenceFinding]:
    """Yield a finding if the sentence says of another subject what the clause says must or may be done."""
    subject, predicate = divided(claim)
    yield from _other_referent(claim, clause)
    known = content_keys(clause.tokens) | clause.before | (clause.context if clause.cells else frozenset())
    for token in subject:
        if token.kind in CONTENT and token.key not in known:
            yield SentenceFinding("subject", f'the passage does not say this of "{token.written}"')
    before = claim[: claim.index(subject[0])] if subject else ()
    items = _earlier_items(before) if subject and subject[0].kind is MeaningKind.BREAK else []
    if clause.cells and any(content_keys(item) <= content_keys(claim[len(before) :]) for item in items):
        yield SentenceFinding("subject", "the sentence says a subject twice, the row does not")
    if clause.cells or not predicate:
        return
    claimed = content_keys(subject) or content_keys(before)  # "it" stands for `before`
    done = content_keys(segments(predicate)[0]) or content_keys(predicate)
    has_subject = content_keys(subject) or (subject and not claimed)
    alone = [divided(segment) for segment in segments(clause.own)]
    rules = _rules(clause.own, whole=bool(items)) if has_subject else alone
    nearest, also_done = max(rules, key=lambda rule: len(content_keys(rule[1]) & done), default=((), ()))
    done_there = content_keys([*dropwhile(lambda token: token.kind is not MeaningKind.MODAL, clause.own)])
    if done_there and not content_keys(predicate) & done_there:
        yield SentenceFinding("coverage", "the passage says of its subject none of this")
    acted_on = _other_party(also_done)
    is_turned = _is_passive(predicate) is not _is_passive(also_done)
    if not (named := content_keys(nearest)) and nearest and content_keys(subject):  # a pronoun of the clause
        named = (clause.referents or clause.before) | clause.context
        claimed = (
            content_keys([token for token in subject if token.kind in CONTENT][-1:]) if clause.referents else claimed
        )
        is_turned = _is_passive(predicate)
        acted_on = acted_on if is_turned else frozenset()
    is_other = bool(named) and not claimed & (named | acted_on if is_turned else named)
    is_other |= bool(named) and not all(content_keys(item) & (acted_on if is_turned else named) for item in items)
    is_other |= bool(_persons(nearest) and _persons(subject) - _persons(nearest))
    is_other |= _says_twice(items, subject, nearest)
    is_less = _is_cut_short(subject, nearest) or _is_general(subject, nearest)
    is_less |= _is_restricted(claim, nearest, clause.own) or _is_part(subject, [whole for whole, _ in rules])
    is_less |= is_turned and _is_general(subject, _object(also_done))
    if is_other or is_less:
        code = "roles" if is_other and claimed & acted_on else "subject"
        yield SentenceFinding(code, f'the passage says it of "{" ".join(token.written for token in nearest)}"')


def _other_referent(claim: Tokens, clause: Clause) -> Iterator[SentenceFinding]:
    """Yield a finding if the sentence begins with another subject than the one "it" or "they" of the clause stands for.

    A plural is another subject than a single thing: "reports" for "the first report".
    """
    if not clause.referents or not clause.own or clause.own[0].written not in _STAND_FOR:
        return
    own = content_keys(clause.own)
    opening = [token for token in takewhile(lambda token: token.key not in own, claim) if token.kind in CONTENT]
    named = content_keys(opening)
    is_widened = (
        clause.own[0].written not in _PLURAL
        and named
        and named < clause.referents
        and _MANY.search(opening[-1].written)
    )
    if named and (is_widened or not named & (clause.referents | clause.context)):
        yield SentenceFinding("subject", f'"{clause.own[0].written}" of the passage stands for something else')


def _says_twice(items: Iterable[Tokens], subject: Tokens, whole: Tokens) -> bool:
    """Return whether a list of subjects repeats words of its last item although the clause has no list."""
    has_list = any(token.kind is MeaningKind.BREAK for token in whole)
    return not has_list and any(content_keys(item) <= content_keys(subject) for item in items)


def _object(predicate: Tokens) -> list[MeaningToken]:
    """Return the object of a predicate: the words right behind its first one."""
    return [*takewhile(lambda token: token.kind in CONTENT, predicate)][1:]


def _is_cut_short(subject: Tokens, whole: Tokens) -> bool:
    """Return whether a subject ends within that of the clause: "the insurer", for "the insurer's capital".

    An abbreviation is no further word: "the Risk Board (RB)".
    """
    *_, last = ("", *(token.key for token in subject if token.kind in CONTENT))
    following = [after for token, after in pairwise((*whole, END)) if token.key == last]
    keys = content_keys(subject)
    initials = {token.written[0] for token in whole}
    return bool(following) and all(
        after.kind in CONTENT and after.key not in keys and not set(after.written.removesuffix("s")) <= initials
        for after in following
    )


def _is_general(subject: Tokens, whole: Tokens) -> bool:
    """Return whether a subject has some words of that of the clause, in another number: "desks", for "the FX desk"."""
    forms = {(token.key, token.written) for token in whole}
    told = [token for token in subject if token.kind in (MeaningKind.WORD, MeaningKind.SIDE)]
    is_inflected = any((token.key, token.written) not in forms for token in told)
    return is_inflected and content_keys(whole) > content_keys(subject) > frozenset()


def _is_part(subject: Tokens, wholes: Iterable[Tokens]) -> bool:
    """Return whether a subject is only a part of subjects of the clause: "a ledger", for "copies of a ledger"."""
    head = [*takewhile(lambda token: token.kind in CONTENT, dropwhile(lambda token: token.key == "it", subject))]
    links = [
        introduced(whole, place) in _PREPOSITIONS
        for whole in wholes
        for place, token in enumerate(whole)
        if head and token.key == head[0].key and content_keys(head) <= content_keys(whole)
    ]
    return bool(links) and all(links)


def _earlier_items(before: Tokens) -> list[Tokens]:
    """Return the items of a list of subjects before its last one: "the clerk, the desk", of "and the Board must"."""
    return [part for part in segments(before) if content_keys(part)]


def _persons(subject: Tokens) -> frozenset[str]:
    """Return the pronouns that a subject is: "we", "you", "there", "they" for any other of many, "it" for one."""
    keys = frozenset("they" if token.written in _PLURAL else token.key for token in subject)
    return frozenset() if content_keys(subject) else keys & {"it", "they", "there", "one", *PERSONS}


def _is_restricted(claim: Tokens, whole: Tokens, own: Tokens) -> bool:
    """Return whether the clause says it of some of its subject, and the sentence not: "a desk that holds cash".

    A word that the rest of the clause says too counts for the subject only if the sentence says it as often.
    """
    claimed = _counted(claim) - (_counted(own) - _counted(whole))
    subject = [*takewhile(lambda token: token.kind is not MeaningKind.MODAL, whole)]
    kept = -1
    for place, token in enumerate(subject):
        if claimed[token.key] > 0:
            claimed[token.key] -= 1
            kept = place
    return kept >= 0 and len(content_keys(subject[kept + 1 :])) >= _LEAST_RESTRICTION


def _counted(tokens: Iterable[MeaningToken]) -> Counter[str]:
    return Counter(token.key for token in tokens if token.kind in CONTENT)


def _other_party(predicate: Tokens) -> frozenset[str]:
    """Return the subject of a predicate turned round: the agent of a passive, or what its act is done to."""
    if _is_passive(predicate):
        by = next((place for place, token in enumerate(predicate) if token.key == "by"), len(predicate))
        return content_keys(predicate[by:])
    act = next((token.key for token in predicate if token.kind in CONTENT), "")
    return content_keys(predicate) - {act}


def _is_passive(predicate: Tokens) -> bool:
    return any(token.key == "be" for token in predicate[:2])


def divided(tokens: Tokens) -> tuple[Tokens, Tokens]:
    """Return what stands before the first modal or "means", from the last comma on, and what follows; else nothing."""
    start = 0
    for place, token in enumerate(tokens):
        if token.kind is MeaningKind.MODAL or token.written == "means":
            return tokens[start:place], tokens[place + 1 :]
        if token.kind is MeaningKind.BREAK and token.key not in ("and", "or"):
            start = place + 1
    return (), ()


def _rules(tokens: Tokens, *, whole: bool) -> list[tuple[Tokens, Tokens]]:
    """Return what stands before and after the modal of each segment; after a comma the subject stands before it.

    Args:
        whole: give all subjects of a list: "the clerk, the desk, and the Board".
    """
    out: list[tuple[Tokens, Tokens]] = []
    earlier: list[MeaningToken] = []
    for segment in segments(tokens):
        subject, predicate = divided(segment)
        has_own = any(token.kind is not MeaningKind.BREAK for token in subject)
        is_last = whole and has_own and subject[0].kind is MeaningKind.BREAK
        out.append(([*earlier, *subject] if is_last else subject if has_own or not predicate else earlier, predicate))
        goes_on = not predicate and segment[0].kind is not MeaningKind.CONDITION
        earlier = [*(earlier if goes_on else ()), *segment]
    return out


def segments(tokens: Tokens) -> list[Tokens]:
    """Return the parts of a sentence between its commas, coordinators and conditions."""
    cuts = [
        place
        for place, token in enumerate(tokens)
        if token.kind is MeaningKind.BREAK or token.kind is MeaningKind.CONDITION
    ]
    return [tokens[start:end] for start, end in zip([0, *cuts], [*cuts, len(tokens)]) if start < end]


def introduced(tokens: Tokens, place: int) -> str:
    """Return what introduces a word: "^" at a beginning, a preposition or condition, or "" after another word."""
    for before in reversed(tokens[:place]):
        if before.key in ("it", "one", "be", "there", *PERSONS) or before.written == "no":
            continue
        if before.kind is MeaningKind.BREAK:
            return "^"
        return "" if before.kind in (*CONTENT, MeaningKind.MODAL, MeaningKind.NEGATION) else before.key
    return "^"


def active(claim: Tokens, own: Tokens) -> Tokens:
    """Return a passive without an agent in the order of the clause, if that is active: "must keep the file", for "the
    file must be kept".
    """
    acts = {act.key for modal, act in pairwise(own) if modal.kind is MeaningKind.MODAL and act.kind in CONTENT}
    places = (place for place, (be, act) in enumerate(pairwise(claim)) if be.key == "be" and act.key in acts)
    if (place := next(places, None)) is None:
        return claim
    modal = max((at for at in range(place) if claim[at].kind is MeaningKind.MODAL), default=place)
    commas = (at for at in range(modal) if claim[at].kind is MeaningKind.BREAK and claim[at].key not in ("and", "or"))
    start = max(commas, default=-1) + 1
    return [*claim[:start], *claim[modal:place], claim[place + 1], *claim[start:modal], *claim[place + 2 :]]


def is_passive(tokens: Tokens, other: Tokens) -> bool:
    """Return whether an agent ("by the Board") of a text is a subject of another one without agents, before its act."""
    if _agents(other):
        return False
    keys = [token.key for token in other]
    for place in _agents(tokens):
        agent = _nearest_run([token.key for token in tokens[place:]], keys)
        acts = [key for key in _acts_before(tokens, place - 1) if key in keys]
        if agent is not None and acts and all(agent < keys.index(act) for act in acts):
            return not _of_other_agents(tokens, place, keys) & frozenset(keys)
    return False


def _of_other_agents(tokens: Tokens, place: int, named: Sequence[str]) -> frozenset[str]:
    """Return what is said of other, unnamed agents alone: "loans", of "loans by a clerk and limits by the Board".

    Args:
        place: of the agent.
        named: the keys of the other text.
    """
    start = 0
    own = others = frozenset[str]()
    for part in segments(tokens):
        if start <= place < start + len(part):
            own = content_keys(part)
        elif any(part[at].key not in named for at in _agents(part)):
            others |= content_keys(part[next((at + 2 for at, token in enumerate(part) if token.key == "be"), 0) :])
        start += len(part)
    return others - own


def _nearest_run(sought: Sequence[str], keys: Sequence[str]) -> int | None:
    """Return the place of the longest run that begins as `sought` does; None if its first key is missing."""
    lengths = [
        sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(sought, keys[at:]))) for at in range(len(keys))
    ]
    return lengths.index(max(lengths)) if any(lengths) else None


def _acts_before(tokens: Tokens, place: int) -> list[str]:
    """Return the keys of the content between the last "is" or "be" and a place; without one the last content."""
    start = next((at for at in range(place - 1, -1, -1) if tokens[at].key == "be"), 0)
    content = [token.key for token in tokens[start:place] if token.kind in CONTENT]
    return content if start else content[-1:]


def _agents(tokens: Tokens) -> list[int]:
    """Return the places of words after "by"."""
    return [
        place
        for place, token in enumerate(tokens)
        if place and tokens[place - 1].key == "by" and token.kind in (MeaningKind.WORD, MeaningKind.SIDE)
    ]
