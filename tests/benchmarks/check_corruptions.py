"""Corruptions of a true sentence for `bench_check.py`: each changes one thing that a rule depends on.

A corruption is a function of (sentence, rng) that returns the changed sentence, or None where it does not apply. The
last two kinds need other sentences too.

A corrupted sentence is excluded where the passages it cites still support it, by rules that look at the words alone:

1. Its words stand side by side in a cited passage. What a reader does not see or hear is left out: markup, addresses
   of links, capitals, articles and demonstratives, the spelling of a number, "shall" or "is required to" for "must".
2. It has these words of the sentence that it was made of, or a name of it in the singular for the plural.
3. It joins a subject and a predicate, and the subject is that of the predicate, what stands before a comma apart: what
   holds of a bank holds of it "after the end of the agreement", and "finally". A title above the predicate's line is
   no part of its subject, and a pronoun at the beginning of a sentence has the subject of the sentence before it.
"""

from __future__ import annotations

import calendar
import itertools
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from context_engine.core.text import stems, tokens, without_markup

Corruption = Callable[[str, random.Random], "str | None"]

_NUMBER_WORDS = "one two three four five six seven eight nine ten twelve fifteen twenty thirty sixty ninety".split()  # noqa: SIM905
_NUMBER = re.compile(r"(?<![\w.(/-])\d[\d,]*(?:\.\d+)?(?![\w)/-])(?!\.\d)")
_REFERENCE = re.compile(r"\b\d+(?:\.\d+)+(?:\([a-z0-9]+\))*|\b(?:Rule|Rules|section|Part|Chapter|Notice) \d+")
_SPELLED = re.compile(rf"\b(?:{'|'.join(_NUMBER_WORDS[1:])})\b")
_UNITS = {
    "days": "weeks", "day": "week", "weeks": "days", "months": "weeks", "month": "quarter", "years": "months",
    "year": "month", "hours": "days", "hour": "day", "minutes": "hours", "Business Days": "calendar days",
    "business days": "calendar days", "calendar days": "business days", "%": "basis points", "per cent": "basis points",
    "quarter": "month", "basis points": "%", "million": "billion", "billion": "million", "annual": "monthly",
    "annually": "monthly", "daily": "weekly", "monthly": "yearly", "quarterly": "monthly",
}  # fmt: skip
_MONTHS = list(calendar.month_name)[1:]
_DATE = re.compile(rf"\b(\d{{1,2}}) ({'|'.join(_MONTHS)})(?: (\d{{4}}))?|\b(\d{{4}})-(\d\d)-(\d\d)\b")
_CURRENCIES = {"USD": "EUR", "EUR": "USD", "ALD": "USD", "$": "€", "AED": "USD", "GBP": "USD", "dollars": "euros"}
_MODAL = re.compile(r"\b(must|shall|should|may|can|will)\b(?! (?:not|NOT|only|never|also)\b)")
_MODALS = {"must": "may", "shall": "may", "should": "must", "may": "must", "can": "must", "will": "may"}
_AUXILIARY = re.compile(r"\b(must|shall|should|may|can|will|is|are|was|were|has|have)\b(?! (?:not|only|never|no)\b)")
_NOT = re.compile(r"\b(must|shall|should|may|can|will|is|are|was|were|has|have|does|do) not (?!only\b)")
_NO = re.compile(r"\b[Nn]o (?=[a-z])(?!later|more|less|fewer|longer)")
_CONDITION = re.compile(
    r"(?:,? \b(?:if|unless|where|provided that|except|other than|until|subject to|only if|only when|unless and until)\b"
    r" [^,.;]+)(?=[.;])"
)
_LEADING = re.compile(r"^(?:If|Unless|Where|Until|Except|Subject to|When) [^,;]+, (\w)")
_INVERTED = {"if": "unless", "unless": "if", "If": "Unless", "Unless": "If", "where": "unless", "Where": "Unless"}
_BOUNDS = {
    "at least": "at most", "at most": "at least", "more than": "less than", "less than": "more than",
    "not exceed": "exceed", "within": "after", "before": "after", "after": "before", "prior to": "after",
    "above": "below", "below": "above", "up to": "more than", "no later than": "no earlier than",
    "not less than": "not more than", "minimum": "maximum", "maximum": "minimum", "exceeds": "is below",
    "later": "earlier",
}  # fmt: skip
_DROPPED_BOUNDS = ("at least ", "at most ", "more than ", "up to ", "not less than ", "no more than ", "less than ")
_OPPOSITES = {
    "approve": "reject", "approved": "rejected", "approval": "rejection", "increase": "decrease", "accept": "refuse",
    "accepted": "refused", "include": "exclude", "includes": "excludes", "including": "excluding", "permit": "prohibit",
    "permitted": "prohibited", "prohibited": "permitted", "buy": "sell", "sell": "buy", "internal": "external",
    "external": "internal", "higher": "lower", "lower": "higher", "highest": "lowest", "all": "some", "any": "some",
    "required": "forbidden", "independent": "dependent", "open": "closed", "opened": "closed", "closed": "opened",
    "both": "neither", "always": "sometimes", "every": "no", "each": "no", "granted": "denied", "grant": "deny",
}  # fmt: skip
_JOINTS = ("must", "shall", "may", "should")
_PRONOUNS = ("it", "they", "this", "these", "he", "she")
_UNHEARD = ("a", "an", "the", "this", "that", "these", "those")
_DIGITS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 30, 60, 90)
_REQUIRED = re.compile(r"\b(?:is|are) required to\b")
_ALIKE = {"shall": "must", **{word: str(number) for word, number in zip(_NUMBER_WORDS, _DIGITS, strict=True)}}
_NAME = re.compile(r"(?<=[a-z,] )(?:[A-Z][a-z]+(?: (?:of |and )?[A-Z][a-z]+)*)\b")
_VALUE = re.compile(
    rf"\b(?:(?:\d[\d,.]*\d|\d)|{'|'.join(_NUMBER_WORDS[1:])})"
    r" (?:%|(?:[Bb]usiness |[Cc]alendar |[Ww]orking )?(?:[Dd]ays?|weeks?|months?|years?|hours?|minutes?))"
)


def number(sentence: str, rng: random.Random) -> str | None:
    """Replace a number, in digits or in words."""
    spans = [match for pattern in (_NUMBER, _SPELLED) for match in pattern.finditer(sentence)]
    if not spans:
        return None
    match = rng.choice(spans)
    if match[0].isalpha():
        return _put(sentence, match, rng.choice([word for word in _NUMBER_WORDS[1:] if word != match[0]]))
    digits = list(match[0])
    place = rng.choice([index for index, char in enumerate(digits) if char.isdigit()])
    digits[place] = rng.choice([digit for digit in "123456789" if digit != digits[place]])
    return _put(sentence, match, "".join(digits))


def reference(sentence: str, rng: random.Random) -> str | None:
    """Replace the number of a rule or section."""
    if match := _chosen(_REFERENCE, sentence, rng):
        place = rng.choice([index for index, char in enumerate(match[0]) if char.isdigit()])
        digit = rng.choice([digit for digit in "123456789" if digit != match[0][place]])
        return _put(sentence, match, f"{match[0][:place]}{digit}{match[0][place + 1 :]}")
    return None


def unit(sentence: str, rng: random.Random) -> str | None:
    """Replace a unit of time or share: days by weeks, business days by calendar days."""
    return _from_table(_UNITS, sentence, rng)


def date(sentence: str, rng: random.Random) -> str | None:
    """Replace the day, month or year of a date."""
    match = _chosen(_DATE, sentence, rng)
    if match is None:
        return None
    if match[4]:
        return _put(sentence, match, f"{int(match[4]) + 1}-{match[5]}-{match[6]}")
    day, month, year = match[1], match[2], match[3]
    if year and rng.random() < 0.5:
        return _put(sentence, match, f"{day} {month} {int(year) - 1}")
    other = rng.choice([name for name in _MONTHS if name != month])
    return _put(sentence, match, f"{day} {other}" + (f" {year}" if year else ""))


def currency(sentence: str, rng: random.Random) -> str | None:
    """Replace a currency."""
    return _from_table(_CURRENCIES, sentence, rng)


def modal(sentence: str, rng: random.Random) -> str | None:
    """Replace must by may, may by must, should by must."""
    match = _chosen(_MODAL, sentence, rng)
    return _put(sentence, match, _MODALS[match[1]]) if match else None


def negation(sentence: str, rng: random.Random) -> str | None:
    """Insert or remove a "not" or "no"."""
    if match := _chosen(_NOT, sentence, rng):
        return _put(sentence, match, f"{match[1]} ")
    if match := _chosen(_NO, sentence, rng):
        return _put(sentence, match, "A " if match[0][0] == "N" else "a ")
    if match := _chosen(_AUXILIARY, sentence, rng):
        return _put(sentence, match, f"{match[1]} not")
    return None


def condition(sentence: str, rng: random.Random) -> str | None:
    """Drop a condition or exception, or turn it round: if by unless."""
    if match := _chosen(_LEADING, sentence, rng):
        if rng.random() < 0.5:
            return sentence[match.end() - 1].upper() + sentence[match.end() :]
    elif (match := _chosen(_CONDITION, sentence, rng)) and rng.random() < 0.5:
        return _put(sentence, match, "")
    return _from_table(_INVERTED, sentence, rng)


def bound(sentence: str, rng: random.Random) -> str | None:
    """Turn a bound round: at least by at most, before by after; or drop it."""
    if rng.random() < 0.3:
        for words in rng.sample(_DROPPED_BOUNDS, len(_DROPPED_BOUNDS)):
            if words in sentence:
                return sentence.replace(words, "", 1)
    return _from_table(_BOUNDS, sentence, rng)


def opposite(sentence: str, rng: random.Random) -> str | None:
    """Replace an act or quality by its opposite: approve by reject."""
    return _from_table(_OPPOSITES, sentence, rng)


def roles(sentence: str, rng: random.Random) -> str | None:
    """Swap two names of the sentence that are not joined by "and", "or" or a comma."""
    names = list(re.finditer(r"\b[A-Z][a-z]+(?: [A-Z][a-z]+)+\b", sentence)) or list(_NAME.finditer(sentence))
    for first, second in itertools.pairwise(names):
        between = sentence[first.end() : second.start()]
        if first[0] != second[0] and len(between.split()) > 2 and not re.search(r"\b(?:and|or)\b|,", between):
            return f"{sentence[: first.start()]}{second[0]}{between}{first[0]}{sentence[second.end() :]}"
    return None


def values_swapped(sentence: str, rng: random.Random) -> str | None:
    """Swap the numbers of two values with different units: 5 days and 3 years."""
    values = list(_VALUE.finditer(sentence))
    for first, second in itertools.pairwise(values):
        (one, unit_one), (two, unit_two) = first[0].split(" ", 1), second[0].split(" ", 1)
        if one != two:
            between = sentence[first.end() : second.start()]
            head, tail = sentence[: first.start()], sentence[second.end() :]
            return f"{head}{two} {unit_one}{between}{one} {unit_two}{tail}"
    return None


def name(sentence: str, others: Sequence[str], rng: random.Random) -> str | None:
    """Replace a name inside the sentence by a name of another sentence."""
    match = _chosen(_NAME, sentence, rng)
    if match is None:
        return None
    pool = [found for other in rng.sample(others, min(60, len(others))) for found in _NAME.findall(other)]
    pool = [found for found in pool if not set(found.split()) & set(sentence.split())]
    return _put(sentence, match, rng.choice(pool)) if pool else None


def wrong_clause(sentence: str, others: Sequence[str], rng: random.Random) -> tuple[str, str] | None:
    """Join the sentence's subject and modal to what another sentence says after the same modal; return both."""
    for modal_verb in _JOINTS:
        before, found, after = sentence.partition(f" {modal_verb} ")
        if not found or len(before.split()) > 12 or before[0].islower():
            continue
        for other in rng.sample(others, min(400, len(others))):
            _, found, predicate = other.partition(f" {modal_verb} ")
            if found and 4 <= len(predicate.split()) <= 25 and predicate != after:
                return f"{before} {modal_verb} {predicate}", other
    return None


_MODAL_VERB = r"(?:must|shall|should|may)"
_RELATIVE = re.compile(
    rf"((?:The|A|An|Each|Any|All|Every) (?:[\w'-]+ ){{1,4}}?)"
    rf"(?:that|which|who|whose|in which|to whom|for which) (?:[\w'-]+ ){{2,14}}?(?={_MODAL_VERB} )"
)
_MODIFIED = re.compile(
    rf"(?:The|A|An|Each|Any|Every) (?:(?!or |and )[\w'-]+ ){{1,3}}(?!staff )([\w'-]+[a-rt-z])(?= {_MODAL_VERB} )"
)
"""A noun with what restricts it: no choice of two ("a fund or trustee"), and no "staff", which is many already."""
_OBJECT = re.compile(
    rf"((?:The|A|An|Each|Any|Every) (?:[\w'-]+ ){{1,4}}?{_MODAL_VERB} .*?(?:to|of|with|by) )(the [\w'-]+)"
)
_CONDITIONED = re.compile(r",? (?:if|where|when|until|unless|subject to|except|other than) [^,;.]+")


def restriction(sentence: str, rng: random.Random) -> str | None:
    """Say of all what is said of some: leave out the relative clause of the subject."""
    match = _RELATIVE.match(sentence)
    return match[1] + sentence[match.end() :] if match else None


def general(sentence: str, rng: random.Random) -> str | None:
    """Say of many what is said of one kind: "Desks must", of "The trading desk must"."""
    match = _MODIFIED.match(sentence)
    return f"{match[1].capitalize()}s{sentence[match.end() :]}" if match else None


def more_subjects(sentence: str, rng: random.Random) -> str | None:
    """Make another party of the sentence a subject, too."""
    match = _OBJECT.match(sentence)
    return f"{match[2].capitalize()}, and {sentence[0].lower()}{sentence[1:]}" if match else None


def modals_swapped(sentence: str, rng: random.Random) -> str | None:
    """Exchange two modals that are not of one meaning."""
    modals = list(re.finditer(r"\b(?:must|should|may)\b", sentence))
    pairs = [(first, last) for first, last in itertools.pairwise(modals) if first[0] != last[0]]
    if not pairs:
        return None
    first, last = rng.choice(pairs)
    between = sentence[first.end() : last.start()]
    return f"{sentence[: first.start()]}{last[0]}{between}{first[0]}{sentence[last.end() :]}"


def unconditional(sentence: str, rng: random.Random) -> str | None:
    """Leave out a condition or exception."""
    match = _CONDITIONED.search(sentence)
    return sentence[: match.start()] + sentence[match.end() :] if match else None


CORRUPTIONS: dict[str, Corruption] = {
    function.__name__: function
    for function in (
        number, reference, unit, date, currency, modal, negation, condition, bound, opposite, roles, values_swapped,
        restriction, general, more_subjects, modals_swapped, unconditional,
    )
}  # fmt: skip


_LEAD_IN = re.compile(r"^(?:[A-Z]\w+ly, |for example, |in addition, |note that )", re.IGNORECASE)
"""Words before a subject that say nothing of it."""


def still_supported(sentence: str, passages: Iterable[str]) -> bool:
    """Return whether the words of a sentence stand side by side in a passage."""
    sought = " ".join(_words(sentence))
    return any(f" {sought} " in f" {' '.join(_words(passage))} " for passage in passages)


def reads_alike(sentence: str, original: str, *, in_any_number: bool) -> bool:
    """Return whether two sentences have the same words; `in_any_number`: a plural is its singular."""
    words, others = _words(sentence), _words(original)
    return words == others or (in_any_number and stems(words) == stems(others))


def says_the_same_of_it(sentence: str, original: str, joined: str, passages: Iterable[str]) -> bool:
    """Return whether the predicate of a blend is said of its subject, what stands before its last comma apart."""
    modal_verb = next(verb for verb in _JOINTS if f" {verb} " in sentence)
    subject, other = (_LEAD_IN.sub("", text.partition(f" {modal_verb} ")[0]) for text in (sentence, joined))
    last = subject.rpartition(", ")[2]
    passages = list(passages)
    if other.lower() in _PRONOUNS and (
        still_supported(f"{original} {joined}", passages)
        or any(before[: len(_words(last))] == stems(_words(last)) for before in _before(joined, passages))
    ):
        return True
    rule = stems(_words(sentence.removeprefix(subject.removesuffix(last))))
    return stems(_words(last)) == stems(_words(other)) or any(
        stems(_words(line))[: len(rule)] == rule for passage in passages for line in passage.splitlines()
    )


def _before(sentence: str, passages: Iterable[str]) -> Iterator[list[str]]:
    """Yield the stems of the sentence that stands before a sentence in a passage."""
    for passage in passages:
        earlier, found, _ = " ".join(passage.split()).partition(" ".join(sentence.split()))
        if found:
            yield stems(_words(earlier.rstrip(". ").rpartition(". ")[2]))


def _words(text: str) -> list[str]:
    words = tokens(_REQUIRED.sub("must", without_markup(text)))
    return [_ALIKE.get(word, word) for word in words if word not in _UNHEARD]


def _chosen(pattern: re.Pattern[str], sentence: str, rng: random.Random) -> re.Match[str] | None:
    matches = list(pattern.finditer(sentence))
    return rng.choice(matches) if matches else None


def _put(sentence: str, match: re.Match[str], text: str) -> str:
    return f"{sentence[: match.start()]}{text}{sentence[match.end() :]}"


def _from_table(table: dict[str, str], sentence: str, rng: random.Random) -> str | None:
    words = [word for word in table if re.search(_bounded(word), sentence)]
    if not words:
        return None
    longest = max(map(len, words))
    word = rng.choice([word for word in words if not any(word in other and word != other for other in words)])
    match = rng.choice(list(re.finditer(_bounded(word), sentence)))
    return _put(sentence, match, table[word]) if longest else None


def _bounded(word: str) -> str:
    return rf"\b{re.escape(word)}\b" if word[0].isalpha() else re.escape(word)
