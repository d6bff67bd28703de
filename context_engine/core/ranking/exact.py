"""Rank by the exact names in a query: quoted phrases and codes decide strictly, section numbers by a share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from context_engine.core.concurrency.forking import cached_property
from context_engine.core.models import PreparedQuery
from context_engine.core.query.features import names_sections_only, spellings, words_beside
from context_engine.core.ranking.candidates import AnalysedText
from context_engine.core.text import tokens

REFERENCE_SHARE: Final = 0.2
"""Share of relevance that the section numbers of a question decide. Many books have a section 3.5, and texts cite each
other's, so they do not decide alone: on 341 questions with section numbers .2 gave MAP +.007 and R@10 +.006, a strict
order -.001 and +.004."""

_FEW_WORDS: Final = 2
"""A query of a name and at most so many other words is after what is called so; a longer one may be after what cites
it ("which desks file returns under MAS Notice 637"): without the limit R@8 fell by .22 on 19 long questions with a
code."""

_OVER: Final = 0.001
_MOST: Final = 0.95
_HEADING: Final = re.compile(r"^#{1,6}\s.*$", re.MULTILINE)
_ITEM: Final = re.compile(r"\(\w{1,4}\)")
_ITEMISED: Final = re.compile(r"(.*\w)((?:\(\w{1,4}\))+)")
_DOTTED_ITEM: Final = re.compile(r"\.(?=\()")
_NUMBER_SIGN: Final = re.compile(r" no (?=\d)")
_BEFORE_ITEM: Final = re.compile(r"\s+(?=\()")


def exact_first(
    query: PreparedQuery,
    relevance: Sequence[float],
    texts: Iterable[AnalysedText],
    labels: Iterable[AnalysedText],
    margin: float,
) -> list[float]:
    """Return relevance in [0, 1] that ranks texts with the query's exact names above texts without them.

    Let h be the share of the query's names that a text contains, and w = (1 + margin) / 2. Relevance becomes

        (1 - w) * relevance + w * h / max(h)

    So a text with all quoted phrases and codes leads a text with none by more than `margin`, and texts with equal h
    keep their order. If all texts have the same h, nothing changes. Section numbers count like this if the query
    consists of nothing else; otherwise they use w = REFERENCE_SHARE.

    If the query consists of little more than its names, a text that owns a name leads a text that only cites it, also
    by more than `margin`. With o the share of names that a text owns, h becomes (h + o) / 2 and w becomes
    2 * (1 + margin) / 3, at most .95, so that relevance still orders texts with equal h (a margin up to .425 is kept).

    A text contains a name if the words of the name stand side by side in the text or in its label. It owns a name that
    stands in its label or headings, or that names an item of it: a text under `4.2.1` with "(b)" owns `4.2.1(b)`, and
    a text under `Notice 637` and `4` owns `Notice 637(4)(b)`. Every text owns the quoted phrases that it contains.

    Args:
        relevance: [0, 1] each.
        texts: the pool; not read if the query has no exact names.
        labels: the label of each text (title, headings, section, document id).
        margin: [0, 1]; with authority_weight * (highest - lowest boost) / relevance_weight no authority tier can
            reverse it.
    """
    leading = [*_names(query.phrases, True), *_names(query.codes)]
    favoured = _names(reference for reference in query.references if not any(reference in code for code in query.codes))
    if not leading and names_sections_only(query.text, query.references):
        leading, favoured = favoured, []
    if not (leading or favoured):
        return list(relevance)
    pool = [_Text(text, label) for text, label in zip(texts, labels, strict=True)]
    lifted = _lifted(relevance, [candidate.held(favoured) for candidate in pool], REFERENCE_SHARE)
    holding, own = [candidate.held(leading) for candidate in pool], [candidate.own(leading) for candidate in pool]
    weight = min((1.0 + margin) / 2.0 + _OVER, 1.0)
    if own == holding or not any(own) or words_beside(query.text, [name.written for name in leading]) > _FEW_WORDS:
        return _lifted(lifted, holding, weight)
    weight = max(weight, min(2.0 * (1.0 + margin) / 3.0 + _OVER, _MOST))
    return _lifted(lifted, [(share + other) / 2.0 for share, other in zip(holding, own)], weight)


def _lifted(relevance: Sequence[float], shares: Sequence[float], weight: float) -> list[float]:
    best = max(shares, default=0.0)
    if best == min(shares, default=0.0):
        return list(relevance)
    return [(1.0 - weight) * value + weight * share / best for value, share in zip(relevance, shares, strict=True)]


def phrases_held(
    phrases: Sequence[str], texts: Sequence[AnalysedText], labels: Sequence[AnalysedText]
) -> frozenset[str]:
    """Return the quoted phrases whose words stand side by side in some text or its label.

    Args:
        texts, labels: as in `exact_first`.
    """
    pool = [_Text(text, label) for text, label in zip(texts, labels, strict=True)] if phrases else []
    return frozenset(name.written for name in _names(phrases, True) if any(text.held([name]) for text in pool))


class _ExactName(NamedTuple):
    """A name in a query.

    Attributes:
        written: in the query.
        sought: its tokens between spaces, in each spelling that is looked for.
        quoted: whether the query has it in quotes.
    """

    written: str
    sought: tuple[str, ...]
    quoted: bool


def _names(written: Iterable[str], quoted: bool = False) -> list[_ExactName]:
    return [_ExactName(name, (_joined(name),) if quoted else _sought(name), quoted) for name in written]


def _sought(name: str) -> tuple[str, ...]:
    return tuple(_joined(_BEFORE_ITEM.sub("", spelling)) for spelling in spellings(name))


class _Text:
    """A text and its label as tokens between spaces, joined only if they may hold a name."""

    def __init__(self, text: AnalysedText, label: AnalysedText) -> None:
        self._text, self._label = text, label

    @cached_property
    def _body(self) -> str:
        return _joined(self._text.text)

    @cached_property
    def _head(self) -> str:
        return _joined(" ".join((self._label.text, *_HEADING.findall(self._text.text))))

    @cached_property
    def _spelled(self) -> str:
        return self._text.text.casefold()

    def held(self, names: Sequence[_ExactName]) -> float:
        """Return the share of the names that the text or its label holds; 0 for no names."""
        possible = filter(self._may_hold, names)
        return sum(self._cites(name) or self._is_called(name) for name in possible) / max(len(names), 1)

    def own(self, names: Sequence[_ExactName]) -> float:
        """Return the share of the names that are the text's own; 0 for no names."""
        called = (
            self._is_called(name) or (name.quoted and self._cites(name)) for name in names if self._may_hold(name)
        )
        return sum(called) / max(len(names), 1)

    def _may_hold(self, name: _ExactName) -> bool:
        """Return whether text and label have all tokens of a name in some spelling; most texts do not, and need no
        closer look.

        A clause counts without its items, because they may stand elsewhere in the text.
        """
        has_items_apart = ".(" in self._text.text or ".(" in self._label.text
        return has_items_apart or any(all(map(self._has_token, spelling.split())) for spelling in name.sought)

    def _has_token(self, token: str) -> bool:
        clause, bracket, _ = token.partition("(")
        text_tokens, others = self._text.reading.tokens, self._label.reading.tokens
        if bracket:
            return any(held_token.startswith(clause) for held_token in text_tokens) or any(
                held_token.startswith(clause) for held_token in others
            )
        return token in text_tokens or token in others

    def _cites(self, name: _ExactName) -> bool:
        return any(spelling in self._body for spelling in name.sought)

    def _is_called(self, name: _ExactName) -> bool:
        by_head = any(spelling in self._head for spelling in name.sought)
        return by_head or (not name.quoted and any(self._has_item(spelling.strip()) for spelling in name.sought))

    def _has_item(self, name: str) -> bool:
        itemised = _ITEMISED.fullmatch(name)
        if itemised is None:
            return False
        stem, items = itemised[1], _ITEM.findall(itemised[2])
        is_code = " " in stem
        return any(
            self._is_under(stem, items[:count], is_code) and all(item in self._spelled for item in items[count:])
            for count in range(is_code, len(items) + is_code)
        )

    def _is_under(self, stem: str, items: Sequence[str], is_code: bool) -> bool:
        """Return whether `stem(4)(b)` heads the text, or for a code `stem` and `4(b)`."""
        if f" {stem}{''.join(items)} " in self._head:
            return True
        section = f" {items[0][1:-1]}{''.join(items[1:])} " if is_code else ""
        return is_code and f" {stem} " in self._head and section in self._head


def _joined(text: str) -> str:
    """The tokens between spaces: `4.2.1.(b)` reads `4.2.1(b)`, `Notice No. 637` reads `Notice 637`."""
    return _NUMBER_SIGN.sub(" ", f" {' '.join(tokens(_DOTTED_ITEM.sub('', text)))} ")
