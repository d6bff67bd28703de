"""The check of an answer's sentence: whether the passages that it cites say what it says.

A sentence is compared with the clauses of the cited passages, one at a time: a sentence that joins the subject of one
rule to the predicate of another is in no clause. Every value, date, name and act of the sentence must stand in the
clause. Every modal, negation, condition, exception and bound must stand in both: what the clause says "unless" of is
not said without it. A sentence that says two things may rest on two clauses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import fsum, log
from typing import Final, NamedTuple

from context_engine.answer.altering import altered
from context_engine.answer.clauses import Clause, stated
from context_engine.answer.comparing import ClauseComparison, Weight, compared, covered, exact
from context_engine.answer.reading import MeaningKind, MeaningToken, Tokens, content_keys, normalised, read
from context_engine.answer.sentences import statements
from context_engine.answer.values import Evidence, Quote, Sentence, SentenceFinding, Verdict
from context_engine.core.chunking.spans import Span
from context_engine.core.protocols import Entailment

SUPPORTED_COVERAGE: Final = 0.8
"""Least share of a sentence's information that its clause must hold."""
ROW_COVERAGE: Final = 0.6
"""The same for a row of a table or record, which has no verbs."""
PARTLY_COVERAGE: Final = 0.4
ENTAILED: Final = 0.5
_MOST_STATEMENTS: Final = 5
_LEAST_PART: Final = 2
_MOST_PARTS: Final = 6
_MOST_TOKENS: Final = 250

_PAPER: Final = (
    r"(?:polic(?:y|ies)|documents?|passages?|procedures?|rules?|texts?|notices?|sources?|guidelines?|regulations?"
    r"|context|standards?|guides?|circulars?|sops?|excerpts?|articles?|information)"
)
_NUMBERED: Final = r"(?:passage|document|source|excerpt)s? \d+(?:(?:, | and |, and )\d+)*"
_THE_PAPER: Final = rf"(?:(?:the|this|these|that|our|its|both)\s+(?:[\w-]+\s+){{0,2}}?{_PAPER}|{_NUMBERED})"
_SAYS: Final = (
    r"(?:also\s+)?(?:states?|says?|provides?|specif(?:y|ies)|notes?|confirms?|mentions?|explains?|indicates?|adds?"
    r"|clarif(?:y|ies)|points? out)"
)
_LEADING_WORDS: Final = (
    r"in addition|additionally|furthermore|moreover|also|in short|overall|among other things|in particular|specifically"
    r"|however|therefore|thus|hence|meanwhile|separately|similarly|likewise|finally|lastly|in summary|in other words"
    r"|for example|for instance|in general|generally|as a result|first(?:ly)?|second(?:ly)?|third(?:ly)?|next"
)
_FRAME: Final = re.compile(
    rf"(?:(?:yes|no|sure|certainly)\s*[,:.;!]\s*|(?:{_LEADING_WORDS})\s*,\s*|(?:please )?note that\s+"
    r"|(?:according to|based on|under|per|from|in|as (?:per|stated in|set out in|mentioned in|described in|noted in))"
    rf"\s+{_THE_PAPER}(?:\s+(?:given|provided|above))?\s*,\s*"
    rf"|{_THE_PAPER}\s+{_SAYS}\s+that\s+|it is (?:stated|noted|mentioned) that\s+"
    r")+",
    re.IGNORECASE,
)
"""What leads into a sentence and says nothing of a rule: "According to the policy,"."""
_POINTER: Final = re.compile(rf"\s*\((?:see |from |in )?(?:the )?{_NUMBERED}\)", re.IGNORECASE)
"""A passage named in brackets inside a sentence."""
_WORD: Final = re.compile(r"[^\W_]+|[,;:()]")
_BRACKETED: Final = re.compile(r" \([^()\d]{2,40}\)")
_CUT_OFF: Final = re.compile(
    r"^(?!.*\b(?:what|who|which|where|how|whether|something|someone|as|than)\b[^,;]*"
    r"\b(?:is|are|was|were|be|may|can|must|should|will)\W*$)"
    r".*\b(?:is|are|was|were|be|been|must|shall|should|may|can|will|if|unless|when|where)\W*$",
    re.IGNORECASE | re.DOTALL,
)
"""How a sentence ends before it says anything: "The use of systems is."; "who or something you are" is whole."""
_TOPIC: Final = re.compile(r"(?:regarding|concerning|as regards|as for|on)\s+([\w ,./&()'-]{2,80}?):\s*", re.IGNORECASE)
_UNSAID: Final = (MeaningKind.LINK, MeaningKind.BREAK)


class _KnownKeys(NamedTuple):
    """The keys of passages' headings, and those of all that they name."""

    headings: frozenset[str]
    every: frozenset[str]


class _Match(NamedTuple):
    """The clause of a passage that is nearest to a sentence."""

    label: str
    statement: Clause
    comparison: ClauseComparison

    @property
    def supports(self) -> bool:
        """Whether the clause holds everything that the sentence states."""
        least = ROW_COVERAGE if self.statement.cells else SUPPORTED_COVERAGE
        return not self.comparison.findings and self.comparison.coverage >= least


def check(
    sentence: str,
    labels: Sequence[str],
    evidence: Mapping[str, Evidence],
    quotes: Sequence[str] = (),
    *,
    entails: Entailment | None = None,
) -> Sentence:
    """Return a sentence with its verdict, and the quotes that it rests on.

    Args:
        sentence: one sentence of an answer, without its labels.
        labels: the labels that it cites: "[1]".
        evidence: the passages that may be cited, by label.
        quotes: verbatim parts of the cited passages that the answer gives for the sentence; empty: the clauses nearest
            to it are looked for.
        entails: a model that may lower the verdict SUPPORTED to PARTLY; it never raises one.
    """
    text = sentence.strip()
    if not labels:
        return Sentence(text, (), Verdict.UNCITED, 0.0, (SentenceFinding("uncited", "the sentence cites no passage"),))
    unknown = [label for label in dict.fromkeys(labels) if label not in evidence]
    cited = {label: evidence[label] for label in dict.fromkeys(labels) if label in evidence}
    if unknown:
        listed = ", ".join(unknown)
        return _refused(text, SentenceFinding("unknown_label", f"no passage of the context has the label {listed}"))
    places = {quote: _places(quote, cited) for quote in quotes}
    if missing := [quote for quote, where in places.items() if not where]:
        return _refused(
            text, SentenceFinding("quote_not_found", f'"{missing[0]}" does not stand in the cited passages')
        )
    if _is_denied(text, cited.values()):
        return _refused(text, SentenceFinding("negation", "the topic and its heading differ in a negation"))
    known = [(label, item) for label, passage in cited.items() for item in stated(passage)]
    claim = _claim(text, _known(cited.values(), known))
    if len(read(claim)) > _MOST_TOKENS:
        return _refused(text, SentenceFinding("length", f"the sentence has more than {_MOST_TOKENS} words and marks"))
    if _CUT_OFF.search(text) or _begins_with_nothing(claim):
        return _refused(text, SentenceFinding("incomplete", "the sentence begins or ends before it says anything"))
    if places:
        known = [(label, item) for label, item in known if _is_quoted(label, item, places.values())]
    checked = _checked(text, claim, known, _weights(evidence.values()), cited)
    return _entailed(checked, evidence, entails) if entails else checked


def _is_denied(text: str, passages: Iterable[Evidence]) -> bool:
    """Return whether every heading with the words of a sentence's topic says "no" where the topic does not."""
    topic = _TOPIC.match(_framed(text).removeprefix(", "))
    if topic is None:
        return False
    words, denials = _said_and_denied(topic[1])
    headings = {heading for passage in passages for item in statements(passage) for heading in item.headings}
    same = [
        heading_denials for heading_words, heading_denials in map(_said_and_denied, headings) if words <= heading_words
    ]
    return bool(words and same) and denials not in same


def _said_and_denied(text: str) -> tuple[frozenset[str], int]:
    """Return the words of a topic or heading, and how often it says "not"."""
    tokens = read(text.lower())
    return content_keys(tokens), sum(token.kind is MeaningKind.NEGATION for token in tokens)


def _known(passages: Iterable[Evidence], stated_in: Iterable[tuple[str, Clause]]) -> _KnownKeys:
    headings = frozenset(token.key for passage in passages for heading in passage.headings for token in read(heading))
    return _KnownKeys(headings, headings.union(*(item.keys for _, item in stated_in)))


def _framed(text: str) -> str:
    """Return a sentence without the passages named in it and words that lead into it."""
    rest = _POINTER.sub("", text)
    return _FRAME.sub(", ", rest, count=1) if _FRAME.match(rest) else rest


def _claim(text: str, known: _KnownKeys) -> str:
    """Return a sentence without words that lead into it, nor a topic ("On limits:") whose words are known.

    A value or an opposite of a topic must stand in a heading.
    """
    rest = _framed(text)
    if topic := _TOPIC.match(rest.removeprefix(", ")):
        tokens = [token for token in read(topic[1].lower()) if token.kind not in _UNSAID]
        if all(token.key in (known.every if token.kind is MeaningKind.WORD else known.headings) for token in tokens):
            rest = f", {rest.removeprefix(', ').removeprefix(topic[0])}"
    return rest


def _begins_with_nothing(claim: str) -> bool:
    """Return whether a sentence begins with a conjunction that joins nothing: "The same, and a desk must"."""
    marks = [token.key for token in read(claim.removeprefix(", "))[:2] if token.kind is MeaningKind.BREAK]
    return len(marks) > 1


def _refused(text: str, finding: SentenceFinding) -> Sentence:
    return Sentence(text, (), Verdict.UNSUPPORTED, 0.0, (finding,))


def _checked(
    text: str, claim: str, known: Sequence[tuple[str, Clause]], weight: Weight, cited: Mapping[str, Evidence]
) -> Sentence:
    for label, item in known:
        if not item.lead and normalised(item.statement.text()) == normalised(text):
            return Sentence(
                text, _quotes([_Match(label, item, ClauseComparison((), 1.0))], cited), Verdict.SUPPORTED, 1.0
            )
    best = _best(read(claim), known, weight) if content_keys(read(claim)) else None
    if best is None:
        return _refused(text, SentenceFinding("coverage", "no sentence of the cited passages says anything of this"))
    if matches := [best] if best.supports else _together(read(claim), known, weight):
        coverage = min(match.comparison.coverage for match in matches)
        supported = Sentence(text, _quotes(matches, cited), Verdict.SUPPORTED, coverage)
        if not (changes := _altered(claim, matches)):
            return supported
        others = [pair for pair in known if pair[1] is not matches[0].statement]
        other = _checked(text, claim, others, weight, cited)
        is_supported = other.verdict is Verdict.SUPPORTED
        return other if is_supported else supported._replace(verdict=Verdict.UNSUPPORTED, findings=changes)
    coverage, findings = best.comparison.coverage, best.comparison.findings
    partly = {finding.code for finding in findings} <= {"subject", "coverage"} and coverage >= PARTLY_COVERAGE
    if coverage < SUPPORTED_COVERAGE:
        told = f"the passage holds {coverage:.0%} of what the sentence says"
        findings = (*findings, SentenceFinding("coverage", told))
    verdict = Verdict.PARTLY if partly else Verdict.UNSUPPORTED
    return Sentence(text, _quotes([best], cited), verdict, coverage, findings)


def _altered(claim: str, matches: Sequence[_Match]) -> tuple[SentenceFinding, ...]:
    """Return what a sentence changes of the only statement that it rests on; names in brackets may be left out."""
    item, *others = {match.statement.statement: match.statement for match in matches}.values()
    if others or item.cells:
        return ()
    own = item.statement.text()
    if len(_BRACKETED.findall(claim)) != len(_BRACKETED.findall(own)):
        claim, own = _BRACKETED.sub("", claim), _BRACKETED.sub("", own)
    words, claimed = (_WORD.findall(normalised(text).lower()) for text in (own, claim))
    return tuple(dict.fromkeys(altered(read(claim), item.lead, read(own), words, claimed)))


def _best(claim: tuple[MeaningToken, ...], known: Sequence[tuple[str, Clause]], weight: Weight) -> _Match | None:
    """Return the clause that supports a sentence, else the one that is nearest to it."""
    asked = content_keys(claim)
    several = any(token.key == ";" for token in claim)
    ranked = sorted(known, key=lambda pair: -fsum(map(weight, asked & pair[1].keys)))
    best: _Match | None = None
    for label, item in ranked[:_MOST_STATEMENTS]:
        for clause in _nearest(claim, item.clauses(asked, several=several), weight):
            match = _Match(label, item, compared(claim, clause, weight))
            if match.supports:
                return match
            if best is None or _nearness(match) > _nearness(best):
                best = match
    return best


def _nearest(claim: Tokens, clauses: Iterable[Clause], weight: Weight) -> list[Clause]:
    """Return the clauses of a statement that hold most of a sentence: a shorter one may end before its exception."""
    shares = [(round(covered(claim, clause, weight), 6), clause) for clause in clauses]
    most = max((share for share, _ in shares), default=0.0)
    return [clause for share, clause in shares if share == most]


def _nearness(match: _Match) -> tuple[float, int]:
    return round(match.comparison.coverage, 6), -len(match.comparison.findings)


def _together(claim: tuple[MeaningToken, ...], known: Sequence[tuple[str, Clause]], weight: Weight) -> list[_Match]:
    """Return the clauses that support the parts of a sentence; none if a part has none.

    The parts say a value no more often than the statements that they rest on. Statements speak of several subjects:
    parts that rest on more than one each need a subject of their own.
    """
    parts = _parts(claim)
    matches: list[_Match] = []
    for part in parts:
        match = _best(part, known, weight)
        if match is None or not match.supports:
            return []
        matches.append(match)
    statements = {match.statement.statement: match.statement for match in matches}
    stated = exact(token for item in statements.values() for token in item.tokens)
    if any(0 < stated[key] < count for key, count in exact(claim).items()):
        return []
    return [] if len(statements) > 1 and not all(content_keys(_subject(part)) for part in parts) else matches


def _parts(claim: Tokens) -> list[tuple[MeaningToken, ...]]:
    """Cut a sentence that says several things; a part without a subject gets that of the first.

    A sentence whose first part does not show its subject is not cut before such a part.
    """
    cuts = [
        place
        for place, token in enumerate(claim)
        if token.key in (";", "and", "but") and token.kind is MeaningKind.BREAK
    ]
    parts = [tuple(claim[start:end]) for start, end in zip([0, *cuts], [*cuts, len(claim)], strict=True)]
    if not 2 <= len(parts) <= _MOST_PARTS or any(len(content_keys(part)) < _LEAST_PART for part in parts):
        return []
    subject = _subject(parts[0])
    if not content_keys(subject) and any(_continues(part[1]) for part in parts[1:]):
        return []
    return [parts[0], *(_with_subject(part[1:], subject) for part in parts[1:])]


def _subject(part: Tokens) -> tuple[MeaningToken, ...]:
    """Return what stands before the first modal or form of "be"; empty without one."""
    acts = (place for place, token in enumerate(part) if token.kind is MeaningKind.MODAL or token.key == "be")
    return tuple(part[: next(acts, 0)])


def _with_subject(part: tuple[MeaningToken, ...], subject: tuple[MeaningToken, ...]) -> tuple[MeaningToken, ...]:
    return (*subject, *part[part[0].key == "it" :]) if _continues(part[0]) else part


def _continues(first: MeaningToken) -> bool:
    """Return whether a part of a sentence begins with a modal or a pronoun, and so has the subject of the first."""
    return first.kind is MeaningKind.MODAL or (first.kind is MeaningKind.LINK and first.key == "it")


def _weights(evidence: Iterable[Evidence]) -> Weight:
    """Return the weight of a key: ln(1 + N / max(df, 1)) over the N passages."""
    holding = _frequencies(frozenset(evidence))
    count = holding[""]
    return lambda key: log(1.0 + count / max(holding.get(key, 0), 1))


@lru_cache(maxsize=64)
def _frequencies(evidence: frozenset[Evidence]) -> dict[str, int]:
    """Return the number of passages that hold each key; under "" the number of passages."""
    out = {"": len(evidence)}
    for passage in evidence:
        for key in frozenset(key for item in stated(passage) for key in item.keys):
            out[key] = out.get(key, 0) + 1
    return out


def _places(quote: str, cited: Mapping[str, Evidence]) -> list[tuple[str, Span]]:
    """Return where a quote stands in the cited passages, white space and typography apart."""
    words = [re.escape(word) for word in quote.strip().strip(".…").split()]
    if not words:
        return []
    pattern = re.compile(r"\s+".join(words).translate(_ALIKE), re.IGNORECASE)
    return [(label, match.span()) for label, passage in cited.items() for match in pattern.finditer(passage.text)]


_ALIKE: Final = str.maketrans({
    **dict.fromkeys("'’‘", "['’‘]"), **dict.fromkeys('"“”', '["“”]'), "–": "[-–—]", "—": "[-–—]", "\u00a0": r"\s+",
})  # fmt: skip


def _is_quoted(label: str, item: Clause, places: Iterable[Sequence[tuple[str, Span]]]) -> bool:
    return any(
        label == where and start < last and first < end
        for place in places
        for where, (start, end) in place
        for first, last in item.statement.spans
    )


def _quotes(matches: Iterable[_Match], cited: Mapping[str, Evidence]) -> tuple[Quote, ...]:
    """Return the quotes of the clauses: what each hangs on, itself, and what limits it right after."""
    stated_by = [(match.label, match.statement.statement) for match in matches]
    spans = [(label, span) for label, item in stated_by for span in (*item.above, *item.spans, *item.after)]
    return tuple(Quote(label, *span, cited[label].text[slice(*span)]) for label, span in dict.fromkeys(spans))


def _entailed(checked: Sentence, evidence: Mapping[str, Evidence], entails: Entailment) -> Sentence:
    """Lower a supported sentence that the model does not find in its quotes."""
    if checked.verdict is not Verdict.SUPPORTED:
        return checked
    texts = [" ".join((*evidence[quote.label].headings, quote.text)) for quote in checked.quotes]
    sure = entails.entails(texts, checked.text)
    if sure is None or sure >= ENTAILED:
        return checked
    finding = SentenceFinding(
        "entailment", f"{entails.name} finds it in the quotes with {sure:.2f} of at least {ENTAILED}"
    )
    return checked._replace(verdict=Verdict.PARTLY, findings=(finding,))
