"""Injection detection: text that gives orders to a model, or imitates prompts, fences, citations and tags.

A heuristic over the undisguised text: one clear sign makes a text suspect, and so do two weaker signs near each other.
It recognises phrases and marks, not intentions.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, Final, NamedTuple

from context_engine.core.models import Chunk
from context_engine.core.policy.injection_patterns import (
    MARKS,
    SECOND_PERSON,
    HiddenPassage,
    PhraseClass,
    apart,
    encoded,
    invisible,
    reversed_text,
    words_of,
)
from context_engine.core.policy.injection_phrases import PHRASES, RULES, Rule
from context_engine.core.text import FoldedText, fold

INJECTION_SUSPECTED: Final = "injection_suspected"
"""The flag of a chunk with findings."""

_ENOUGH: Final = 2
_SENTENCE: Final = 80
"""Maximum number of characters from the first to the last phrase of one rule."""

_NEAR: Final = 300
"""Maximum number of characters between two signs that count together."""

_SPOKEN: Final = 40
"""Maximum number of characters between the name of a role and words addressed to a model."""

_SEAM: Final = 120
"""Characters read on either side of the place where two texts meet."""

_DEEPEST: Final = 2
_SENTENCE_END: Final = re.compile(r"[.!?।]+(?=\s)|[。！？]|\n\s{0,40}\n")
_FULL_STOPS: Final = (".", "!", "?", "。", "！", "？", "।")
_LEET: Final = str.maketrans("013457@$", "oieastas")
_LEET_WORD: Final = re.compile(r"[013457@$](?=[a-z]{2})(?!th\b|rd\b|nd\b|st\b)|(?<=[a-z])[013457@$](?=[a-z])")

_REPORTED: Final = re.compile(
    r"\b(?:must|shall|should|may|might|will|would|can|could|cannot|to|not|never|we|they|who|which|i)"
    r"(?: (?:also|then|simply|not))? $|(?:不得|不能|不可|不应|不會|不会|勿)$"
)
"""Words before a verb that reports disregard instead of ordering it ("they may ignore ...")."""

_ORDERED: Final = re.compile(
    r"\byou (?:must|shall|should|will|need to|have to|are to|are required to) (?:also |then |simply )?$|\byou to $"
)


class InjectionFinding(NamedTuple):
    """A sign of injection in a text.

    Attributes:
        kind: instructions, chat_template, role_line, fence, citation, provenance, tag or hidden_text.
        start, end: its characters in the original text.
    """

    kind: str
    start: int
    end: int


class _Sign(NamedTuple):
    start: int
    end: int
    kind: str
    rule: str
    weight: int


def injection_findings(text: str) -> tuple[InjectionFinding, ...]:
    """Return the signs of injection in a text, by place; () for a harmless text.

    Overlapping signs of one kind count as one sign. The detection sees through case, look-alike letters, characters
    that show nothing, entities and escapes (nested too), letters spelt apart or run together, digits for letters,
    reversed text, Base64 and hexadecimal digits. Time grows linearly.
    """
    findings: list[InjectionFinding] = []
    for kind, start, end in sorted((sign.kind, sign.start, sign.end) for sign in _suspected(_signs(text, 0))):
        if findings and findings[-1].kind == kind and start < findings[-1].end:
            findings[-1] = findings[-1]._replace(end=max(end, findings[-1].end))
        else:
            findings.append(InjectionFinding(kind, start, end))
    return tuple(sorted(findings, key=lambda finding: (finding.start, finding.end, finding.kind)))


def injection_kinds(text: str) -> tuple[str, ...]:
    """Return the distinct kinds of the findings in a text; () for a harmless text."""
    return tuple(dict.fromkeys(finding.kind for finding in injection_findings(text)))


def split_kinds(before: str, after: str) -> tuple[str, ...]:
    """Return the kinds of the signs that arise if one text follows another, directly or on the next line."""
    left, right = before[-_SEAM:].rstrip(), after[:_SEAM].lstrip()
    seam = len(left)
    kinds = []
    for joint in () if left.endswith(_FULL_STOPS) else ("", "\n"):
        for kind, start, end in injection_findings(left + joint + right):
            if start < seam and end > seam + len(joint):
                kinds.append(kind)
    return tuple(dict.fromkeys(kinds))


def _signs(text: str, depth: int) -> Iterator[_Sign]:
    """Yield the signs in a text and in its hidden passages."""
    folded = fold(text)
    yield from _marks(folded)
    yield from _phrases(folded)
    for passage in apart(folded.text):
        for sign in _phrases(FoldedText(passage.says), compact=True):
            start, end = folded.span(passage.start, passage.end)
            yield sign._replace(start=start, end=end)
    hidden = list(invisible(text))
    for start, end, _ in hidden:
        yield _Sign(start, end, "hidden_text", "hidden_text", _ENOUGH)
    if depth < _DEEPEST:
        for passage in chain(hidden, encoded(text), reversed_text(text)):
            yield from _at(passage, _suspected(_signs(passage.says, depth + 1)))


def _at(passage: HiddenPassage, signs: Iterable[_Sign]) -> Iterator[_Sign]:
    """Yield the signs inside a hidden passage as signs of the passage itself."""
    return (sign._replace(start=passage.start, end=passage.end) for sign in signs)


def _suspected(signs: Iterable[_Sign]) -> Iterator[_Sign]:
    """Yield the signs that suffice by weight, with the signs near them; among nearby signs each rule counts once."""
    near: list[_Sign] = []
    last = 0
    for sign in sorted(signs):
        if near and sign.start > last + _NEAR:
            yield from _enough(near)
            near = []
        near.append(sign)
        last = max(last, sign.end)
    yield from _enough(near)


def _enough(near: Sequence[_Sign]) -> Sequence[_Sign]:
    weights: dict[str, int] = {}
    for sign in near:
        weights[sign.rule] = max(sign.weight, weights.get(sign.rule, 0))
    return near if sum(weights.values()) >= _ENOUGH else ()


def _marks(folded: FoldedText) -> Iterator[_Sign]:
    text = folded.text
    for mark in MARKS:
        for match in mark.finditer(text):
            spoken = mark.kind == "role_line" and SECOND_PERSON.search(text, match.end(), match.end() + _SPOKEN)
            rule = f"{mark.name} {match[1]}" if match.re.groups else mark.name
            yield _Sign(*folded.span(*match.span()), mark.kind, rule, _ENOUGH if spoken else mark.weight)


def _phrases(folded: FoldedText, *, compact: bool = False) -> Iterator[_Sign]:
    """Yield the signs in words, and in words that have digits for letters."""
    yield from _ruled(folded, compact)
    if _LEET_WORD.search(folded.text):
        yield from _ruled(folded.translated(_LEET), compact)


def _ruled(folded: FoldedText, compact: bool) -> Iterator[_Sign]:
    """Yield the rules' findings; a class of phrases is searched once, and only if a rule may still need it."""
    text = folded.text
    possible = _possible_in_letters(text) if compact else _possible(text)
    places: dict[str, list[tuple[int, int]]] = {}
    for rule in RULES if possible else ():
        if not possible.issuperset(rule.classes):
            continue
        for name in rule.classes:
            if name not in places:
                phrases = _phrase_class(name)
                places[name] = phrases.in_letters(text) if compact else phrases.in_text(text)
            if not places[name]:
                break
        else:
            for start, end, weight in _together(rule, places, text):
                yield _Sign(*folded.span(start, end), "instructions", rule.name, weight)


def _possible(text: str) -> frozenset[str]:
    """Return the classes of phrases that a text may hold, by its words and, for scripts without blanks, characters."""
    index, words = _index(), words_of(text)
    possible = frozenset(name for key in words & index.keys() for name, needed in index[key] if needed <= words)
    if text.isascii():
        return possible
    of_characters = _index_of_characters()
    return possible.union(*(of_characters[char] for char in of_characters.keys() & set(text)))


def _possible_in_letters(letters: str) -> frozenset[str]:
    """Return the classes of phrases that letters without blanks may hold, by each phrase's first letters."""
    index, lengths = _index_of_letters()
    beginnings = {letters[place : place + length] for length in lengths for place in range(len(letters))}
    return frozenset(name for begin in beginnings & index.keys() for name in index[begin])


@cache
def _index() -> dict[str, list[tuple[str, frozenset[str]]]]:
    """Return each phrase's class and words, by its longest word."""
    index: dict[str, list[tuple[str, frozenset[str]]]] = {}
    for name in PHRASES:
        for needed in sorted(_phrase_class(name).needs, key=sorted):
            index.setdefault(max(sorted(needed), key=len), []).append((name, needed))
    return index


@cache
def _index_of_characters() -> dict[str, list[str]]:
    """Return the classes by the first character of their phrases that may stand inside a word."""
    index: dict[str, list[str]] = {}
    for name in PHRASES:
        for char in sorted(_phrase_class(name).characters):
            index.setdefault(char, []).append(name)
    return index


@cache
def _index_of_letters() -> tuple[dict[str, list[str]], frozenset[int]]:
    """Return the classes by the first letters of their phrases, and the lengths of those keys."""
    index: dict[str, list[str]] = {}
    for name in PHRASES:
        for begin in sorted(_phrase_class(name).begins):
            index.setdefault(begin, []).append(name)
    return index, frozenset(map(len, index))


@cache
def _phrase_class(name: str) -> PhraseClass:
    return PhraseClass(PHRASES[name])


def _together(rule: Rule, places: dict[str, list[tuple[int, int]]], text: str) -> Iterator[tuple[int, int, int]]:
    """Yield the places where all classes of a rule occur in one sentence."""
    if len(rule.classes) == 1:
        yield from ((start, end, rule.weight) for start, end in places[rule.classes[0]])
        return
    ends = [stop.end() for stop in _SENTENCE_END.finditer(text)]
    last: dict[str, tuple[int, int]] = {}
    for start, end, name in sorted(
        (*span, phrase_class) for phrase_class in rule.classes for span in places[phrase_class]
    ):
        last[name] = (start, end)
        if len(last) < len(rule.classes):
            continue
        first, until = min(span[0] for span in last.values()), max(span[1] for span in last.values())
        if until - first <= _SENTENCE and bisect_right(ends, first) == bisect_left(ends, until):
            reported = "ignore" in last and _is_reported(text, last["ignore"][0])
            yield first, until, 1 if reported else rule.weight
            last.clear()


def _is_reported(text: str, verb: int) -> bool:
    before = text[max(0, verb - 40) : verb]
    return bool(_REPORTED.search(before)) and not _ORDERED.search(before)


def label_kinds(chunk: Chunk, kinds_of: Callable[[str], tuple[str, ...]] = injection_kinds) -> tuple[str, ...]:
    """Return the kinds of the findings in a chunk's title, headings, ids and fields; () for harmless ones.

    Args:
        kinds_of: returns the kinds of the findings in a text; may be a cache.
    """
    title = (chunk.title, *chunk.heading_path, chunk.document_id, chunk.section, chunk.metadata.get("reference"))
    heads = " ".join(str(part) for part in title if part)
    fields = (chunk.document_version, chunk.path, *_texts(chunk.metadata), *_texts(chunk.extra))
    beside = dict.fromkeys(text for text in fields if text and text not in heads)
    return tuple(dict.fromkeys(kind for text in (heads, "\n\n".join(beside)) for kind in kinds_of(text)))


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value, without the names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
