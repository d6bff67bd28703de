"""From the user's words to what is searched for; nothing of them is lost or replaced."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from context_engine.core.models import Expansion, Notice, NoticeCode, PreparedQuery
from context_engine.core.query.clean import clean
from context_engine.core.query.glossary import Glossary, Mention, glossary
from context_engine.core.query.language import language
from context_engine.core.query.references import codes, phrases, references
from context_engine.core.query.split import sub_questions
from context_engine.core.text import Segmenter, segmented

MOST_EXPANSIONS: Final = 16
_MOST_VARIANTS: Final = 3
_MISSPELT: Final = 0.5
"""What an expansion that rests on a spelling counts against one that rests on the word itself."""

Entries = Mapping[str, Sequence[str]]
_NONE: Final[Entries] = MappingProxyType({})


def prepare(
    query: str,
    *,
    entries: Entries = _NONE,
    expansion_weight: float = 1.0,
    multi_query: bool = False,
    most_chars: int = 10_000,
    segmenter: Segmenter = "none",
) -> PreparedQuery:
    """Return a query cleaned, looked through and expanded. Pure: the same arguments give the same value.

    Args:
        query: the user's own words.
        entries: the domain's glossary, {term: other names}.
        expansion_weight: what another name counts against the user's own, [0, 1]; 0 is no expansion.
        multi_query: whether its parts are searched for too (`sub_questions`).
        most_chars: a longer query is cut, and says so.
        segmenter: what cuts Chinese, Japanese and Korean into words.

    Raises:
        MissingExtra: the segmenter is not installed.
    """
    text, shortened = clean(query, most_chars)
    words = segmented(text, segmenter)
    known = glossary(tuple((term, tuple(names)) for term, names in entries.items())) if entries else None
    expansions, suggestions = _expanded(known, text, expansion_weight) if known else ((), ())
    parts = sub_questions(text) if multi_query else ()
    cut = {"characters": len(text)}
    shortening = Notice(NoticeCode.QUERY_SHORTENED, "", f"query_shortened: cut to {len(text)} characters", cut)
    return PreparedQuery(
        original=query,
        text=text,
        words=words if words != text else None,
        language=language(text),
        codes=codes(text),
        references=references(text),
        phrases=phrases(text),
        expansions=expansions,
        sub_queries=parts,
        suggestions=suggestions,
        notices=(shortening,) if shortened else (),
    )


def variants(query: PreparedQuery) -> tuple[str, ...]:
    """Return the query with each expanded term under another of its names, at most three; none without expansions.

    What a text holds of the question is measured by the wording that suits it best: "NPA criteria" and "New Product
    Approval criteria" ask the same. Codes stay as they are.
    """
    names: dict[str, list[str]] = {}
    for one in query.expansions:
        if one.term:
            names.setdefault(one.term, []).append(one.text)
    wordings = min(max(map(len, names.values()), default=0), _MOST_VARIANTS)
    return tuple(_reworded(query.text, names, place) for place in range(wordings))


def _reworded(text: str, names: Mapping[str, Sequence[str]], place: int) -> str:
    longest_first = map(re.escape, sorted(names, key=len, reverse=True))
    spelled = re.compile(rf"(?<![\w/-])(?:{'|'.join(longest_first)})(?![\w/-])")
    return spelled.sub(lambda match: names[match[0]][min(place, len(names[match[0]]) - 1)], text)


def _expanded(known: Glossary, text: str, weight: float) -> tuple[tuple[Expansion, ...], tuple[tuple[str, str], ...]]:
    """Return other names for what the query names, and likely spellings; a name the query has already is none."""
    mentions, misspelt = known.mentions(text), known.misspelt(text)
    has = {name.casefold() for mention in mentions for name in (mention.name, mention.written)}
    found = [
        *_other_names(mentions, has, weight, "glossary"),
        *(Expansion(one.written, one.name, _MISSPELT * weight, "spelling") for one in misspelt),
        *_other_names(misspelt, has, _MISSPELT * weight, "spelling"),
    ]
    expansions = tuple(dict.fromkeys(found))[:MOST_EXPANSIONS] if weight else ()
    return expansions, tuple((one.written, one.name) for one in misspelt)


def _other_names(mentions: Iterable[Mention], has: set[str], weight: float, by: str) -> list[Expansion]:
    return [
        Expansion(mention.written, other, weight, by)
        for mention in mentions
        for other in mention.others
        if other.casefold() not in has
    ]
