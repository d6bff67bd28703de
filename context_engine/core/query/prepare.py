"""Turn the user's words into the prepared query; no word is lost or replaced."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from context_engine.core.models import Expansion, Notice, NoticeCode, PreparedQuery, Refinement
from context_engine.core.models.question_settings import QuestionKind
from context_engine.core.query.features import codes, language, phrases, references
from context_engine.core.query.glossary import Glossary, Mention, glossary
from context_engine.core.text import Segmenter, segmented, terms, tokens
from context_engine.errors import RefinerError

_KEPT_FORMAT: Final = "\u200c\u200d"
"""Joiners, which spell words in some scripts."""

_ONE_CHARACTER: Final = str.maketrans(
    {
        **dict.fromkeys("“”„‟«»「」『』《》", '"'),
        **dict.fromkeys("‘’‚‛", "'"),
        **dict.fromkeys("\u2010\u2011\ufe63", "-"),
    }
)

_DASH_IN_CODE: Final = re.compile(r"(?<=[A-Za-z])[\u2012\u2013\u2014\u2212](?=[A-Z0-9])")
_FULL_WIDTH: Final = re.compile(r"[\uff01-\uffee\u3000]+")
_PLAIN: Final = re.compile(r"[!-~]+(?: [!-~]+)*")


class Cleaned(NamedTuple):
    """The cleaned query, and whether it was cut."""

    text: str
    shortened: bool


def clean(query: str, most: int = 10_000) -> Cleaned:
    """Return a query in one spelling, at most `most` characters long; a longer one is cut between words.

    White space becomes single spaces, control and invisible characters are removed, full-width characters become
    ordinary ones, typographic quotes and hyphens become plain (a dash only inside a code), and all other text is in
    NFC. A query without a visible character is returned unchanged.

    >>> clean("  What does\\u00a0“NPA\\u2011001” say? ").text
    'What does "NPA-001" say?'
    """
    text = query if _PLAIN.fullmatch(query) else _spelled(query) or query
    if len(text) <= most:
        return Cleaned(text, False)
    head = text[: most + 1]
    cut = head.rfind(" ")
    return Cleaned(text[: cut if cut > 0 else most], True)


def _spelled(text: str) -> str:
    text = _FULL_WIDTH.sub(lambda run: unicodedata.normalize("NFKC", run[0]), text)
    text = "".join(map(_visible, text)).translate(_ONE_CHARACTER)
    return " ".join(unicodedata.normalize("NFC", _DASH_IN_CODE.sub("-", text)).split())


def _visible(char: str) -> str:
    if char.isspace():
        return " "
    category = unicodedata.category(char)
    if category == "Cc" or (category == "Cf" and char not in _KEPT_FORMAT):
        return ""
    return char


_ASKING: Final = (
    "what|which|who|whom|whose|when|where|why|how|does|do|did|is|are|was|were|can|could|should|"
    "must|may|would|will|has|have"
)

_SENTENCE: Final = re.compile(r"(?<=[?!;？！；。])\s*|(?<=[^\W\d]\.)\s+(?=[A-Z])")
_ITEM: Final = re.compile(r"(?:^|(?<=[\s:;,]))(?:\(\w{1,3}\)|\d{1,2}[.)]|[a-z]\)|[-*•])\s+(?=\S)")
_BEFORE: Final = "about|above|after|at|before|below|by|for|from|in|of|on|to|under|until|with|within"
_JOINED: Final = re.compile(
    rf",?\s+(?:and|or|but)\s+(?:also\s+)?(?=(?:(?:{_BEFORE})\s+(?:what|which|whom|whose|how)|{_ASKING})\b)",
    re.IGNORECASE,
)

_PAIR: Final = re.compile(
    r"^(?P<head>.*?\b(?:differences?|distinction|comparison|relationship)\s+between|compare)\s+(?P<a>.+?)\s+"
    r"(?:and|with|to|versus|vs\.?)\s+(?P<b>.+?)[?.]?$",
    re.IGNORECASE,
)

_TRAILING: Final = re.compile(r"[,;]?\s+(?:and|or)$")
_QUOTED: Final = re.compile(r'"[^"]*"')
_MARK: Final = "\x00"
_MASKED: Final = re.compile(rf"{_MARK}(\d+){_MARK}")
_LEAST_TERMS: Final = 2
_MOST: Final = 6


def sub_questions(text: str) -> tuple[str, ...]:
    """Return the parts of a cleaned question that can be asked alone, at most six; () if it has only one.

    Parts are its sentences, the items of an enumeration, the clauses joined by an "and" before a question word, and the
    two sides of a comparison. A part needs two search terms; quotes are never cut. Items of an enumeration keep the
    words that lead to them.

    >>> sub_questions("Who approves a new product and when must Compliance be told?")
    ('Who approves a new product', 'when must Compliance be told')
    >>> sub_questions("What is the difference between a pilot launch and a material variation?")
    ('a pilot launch', 'a material variation')
    """
    masked, quotes = _masked(text)
    parts = _items(masked) or [part for sentence in _SENTENCE.split(masked) for part in _JOINED.split(sentence)]
    parts = [side for part in parts for side in _sides(part)]
    spoken = (_MASKED.sub(lambda mark: quotes[int(mark[1])], part).strip(" ,;?!.。？！；") for part in parts)
    questions = tuple(dict.fromkeys(part for part in spoken if len(set(terms(part))) >= _LEAST_TERMS))
    return questions[:_MOST] if len(questions) > 1 else ()


def _items(text: str) -> list[str]:
    """Return the items of an enumeration of two or more, each after the words that introduce it."""
    lead, *items = _ITEM.split(text)
    if len(items) < 2:
        return []
    lead = lead.strip(" :,;")
    return [f"{lead} {_TRAILING.sub('', item.strip())}".strip() for item in items]


def _sides(part: str) -> list[str]:
    pair = _PAIR.match(part.strip())
    return [pair["a"], pair["b"]] if pair and all(len(set(terms(pair[side]))) > 1 for side in "ab") else [part]


def _masked(text: str) -> tuple[str, list[str]]:
    """Return the text with a number between marks in place of each quote, and the quotes."""
    quotes: list[str] = []

    def keep(quote: re.Match[str]) -> str:
        quotes.append(quote[0])
        return f"{_MARK}{len(quotes) - 1}{_MARK}"

    return _QUOTED.sub(keep, text.replace(_MARK, " ")), quotes


def question_kind(query: str) -> QuestionKind:
    """Return the kind of a question.

    >>> [question_kind(text) for text in ("What does NPA-001 say?", "Who signs a product?")]
    ['code', 'plain']
    >>> question_kind("Who signs a product and when must Compliance be told?")
    'parts'
    """
    text = clean(query).text
    if codes(text) or references(text):
        return "code"
    return "parts" if sub_questions(text) else "plain"


MOST_EXPANSIONS: Final = 16
_MOST_VARIANTS: Final = 3
_MISSPELT: Final = 0.5
"""Weight of an expansion of a corrected spelling, relative to one of the word itself."""

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
    """Return a query cleaned, analysed and expanded. Pure: the same arguments give the same value.

    Args:
        entries: the domain's glossary, {term: other names}.
        expansion_weight: weight of another name relative to the user's own, [0, 1]; 0 for no expansion.
        multi_query: whether its parts are searched too (`sub_questions`).
        most_chars: a longer query is cut, with a notice.
        segmenter: the segmenter of Chinese, Japanese and Korean words.

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
    """Return the query with each expanded term under another of its names, at most three; () without expansions.

    The coverage of a text is measured by the wording that suits the text best: "NPA criteria" and "New Product Approval
    criteria" ask the same. Codes stay as they are.
    """
    names: dict[str, list[str]] = {}
    for expansion in query.expansions:
        if expansion.term:
            names.setdefault(expansion.term, []).append(expansion.text)
    wordings = min(max(map(len, names.values()), default=0), _MOST_VARIANTS)
    return tuple(_reworded(query.text, names, place) for place in range(wordings))


def _reworded(text: str, names: Mapping[str, Sequence[str]], place: int) -> str:
    longest_first = map(re.escape, sorted(names, key=len, reverse=True))
    spelled = re.compile(rf"(?<![\w/-])(?:{'|'.join(longest_first)})(?![\w/-])")
    return spelled.sub(lambda match: names[match[0]][min(place, len(names[match[0]]) - 1)], text)


def _expanded(known: Glossary, text: str, weight: float) -> tuple[tuple[Expansion, ...], tuple[tuple[str, str], ...]]:
    """Return other names for the names in a query, and likely spellings; names already in the query are left out."""
    mentions, misspelt = known.mentions(text), known.misspelt(text)
    has = {name.casefold() for mention in mentions for name in (mention.name, mention.written)}
    candidates = [
        *_other_names(mentions, has, weight, "glossary"),
        *(Expansion(mention.written, mention.name, _MISSPELT * weight, "spelling") for mention in misspelt),
        *_other_names(misspelt, has, _MISSPELT * weight, "spelling"),
    ]
    expansions = tuple(dict.fromkeys(candidates))[:MOST_EXPANSIONS] if weight else ()
    return expansions, tuple((mention.written, mention.name) for mention in misspelt)


def _other_names(mentions: Iterable[Mention], has: set[str], weight: float, by: str) -> list[Expansion]:
    return [
        Expansion(mention.written, other, weight, by)
        for mention in mentions
        for other in mention.others
        if other.casefold() not in has
    ]


MOST_CONCEPTS: Final = 8
_MOST_CHARS: Final = 2_000
_CONCEPT: Final = 0.2
"""Weight of a concept named by a model, relative to another name of a user's word."""


def refined(query: PreparedQuery, answer: Any, *, refiner: str, weight: float) -> PreparedQuery:
    """Return the query with a refiner's wording and translations as further searches, and its concepts as expansions.

    A wording that lost a code, a section number or a quoted phrase of the question is left out, and a notice says so.
    So is a translation that lost one of them, a number, or a name that no translation changes (`unchanging`).

    Args:
        refiner: its name.
        weight: of expansions, [0, 1]; a concept counts a fifth of it.

    Raises:
        RefinerError: the answer is not a `Refinement` of texts.
    """
    if not isinstance(answer, Refinement) or not all(
        isinstance(text, str) for text in (answer.text, *answer.concepts, *answer.translations)
    ):
        raise RefinerError(f"{refiner} gave no wording that can be used")
    wording = clean(answer.text, _MOST_CHARS).text.strip()
    named = (*query.codes, *query.references, *query.phrases)
    lost = [name for name in named if not _holds(wording, name)] if wording else []
    translations = [text for text in (clean(text, _MOST_CHARS).text.strip() for text in answer.translations) if text]
    lost_by = {text: _lost(query, text) for text in translations if text.casefold() != query.text.casefold()}
    known = {query.text.casefold(), *(expansion.text.casefold() for expansion in query.expansions)}
    concepts = tuple(
        dict.fromkeys(concept for concept in (clean(text, 200).text.strip() for text in answer.concepts) if concept)
    )
    added = [concept for concept in concepts[:MOST_CONCEPTS] if concept.casefold() not in known] if weight else []
    other = wording if wording and not lost and wording.casefold() not in known else ""
    unused = [
        Notice(
            NoticeCode.REFINEMENT_UNUSED,
            "",
            f"refiner {refiner}: its {kind} lost {', '.join(names)} and is not used",
            {"refiner": refiner, "lost": names},
        )
        for kind, names in (("wording", lost), *(("translation", names) for names in lost_by.values()))
        if names
    ]
    return replace(
        query,
        sub_queries=(*query.sub_queries, other) if other else query.sub_queries,
        expansions=(*query.expansions, *(Expansion("", concept, _CONCEPT * weight, "refiner") for concept in added)),
        concepts=concepts[:MOST_CONCEPTS],
        translations=tuple(text for text, names in lost_by.items() if not names),
        notices=(*query.notices, *unused),
        refiner=refiner,
    )


def unrefined(query: PreparedQuery, problem: str, *, refiner: str) -> PreparedQuery:
    """Return the query unchanged, with a notice of why the refiner's answer is not used."""
    detail = {"refiner": refiner, "problem": problem}
    notice = Notice(NoticeCode.QUERY_NOT_REFINED, "", f"query not refined: {problem}", detail)
    return replace(query, notices=(*query.notices, notice), refiner=refiner)


_NUMBER: Final = re.compile(r"\d+(?:[.,' \u00a0\u202f]\d{3})*(?:[.,]\d+)?")
_GROUPED: Final = re.compile(r"\d{1,3}(?:\.\d{3})+")
_CAPITALS: Final = re.compile(r"(?<!\w)(?=\w*[A-Z]\w*[A-Z])[A-Za-z0-9]+(?!\w)")
_LATIN: Final = re.compile(r"[A-Za-z]{2,}")
_LATIN_SCRIPT: Final = frozenset(("en", "de", "fr", "es", "it", "pt", "nl", "id", "vi"))


def unchanging(query: PreparedQuery) -> tuple[str, ...]:
    """Return the names in a question that stay as they are in any language.

    These are its codes, section numbers and quoted phrases, words with several capitals, and in a question in another
    script the words in Latin letters.

    >>> unchanging(prepare("Wer genehmigt NPA-001 nach MiFID?"))
    ('NPA-001', 'MiFID')
    """
    latin = () if query.language in _LATIN_SCRIPT else _LATIN.findall(query.text)
    shouted = () if query.text.isupper() else _CAPITALS.findall(query.text)
    sections = (number for number in query.references if not _GROUPED.fullmatch(number))
    named = (*query.codes, *sections, *query.phrases)
    return tuple(dict.fromkeys((*named, *(word for word in (*shouted, *latin) if not _is_in(word, named)))))


def _lost(query: PreparedQuery, translation: str) -> list[str]:
    """Return the names and numbers of a question that a translation does not have; numbers may be grouped otherwise."""
    numbers = set(_numbers(translation))
    names = [name for name in unchanging(query) if not _holds(translation, name)]
    return [*names, *(number for number in _numbers(query.text) if number not in numbers and not _is_in(number, names))]


def _numbers(text: str) -> list[str]:
    return list(dict.fromkeys("".join(filter(str.isdecimal, match[0])) for match in _NUMBER.finditer(text)))


def _is_in(word: str, names: Iterable[str]) -> bool:
    return any(word in name for name in names)


def _holds(wording: str, name: str) -> bool:
    return f" {' '.join(tokens(name))} " in f" {' '.join(tokens(wording))} "
