"""A question as groups of terms, and the text score of rows under the statistics of the whole collection.

A store finds rows by the terms they hold; the score is computed here, so that it does not depend on the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, count, pairwise
from math import fsum, log
from typing import Final, NamedTuple, TypeVar

from context_engine.adapters.sources.stores.chunk_rows import IndexText
from context_engine.adapters.sources.stores.options import SearchOptions, covered, smoothed, trust, whole
from context_engine.core.models import Expansion
from context_engine.core.query.features import spellings
from context_engine.core.ranking.lexical import K1, B
from context_engine.core.text import synonyms, term_weights, terms, terms_of_word, tokens

MOST_TERMS: Final = 256
"""Most distinct terms of a question; the rest of a longer one is not searched for."""
SYNONYM: Final = "synonym"
"""The origin (`Expansion.by`) of a synonym."""
MOST_SYNONYMS: Final = 64
"""Most synonyms that are searched for beside a question's own terms."""
CODE_WEIGHT: Final = 2.0
"""Weight, in heading and metadata, of a term with a digit: it ranks the document itself above those that cite it."""
HEADED: Final = 0.5
"""Credit of a word found only in heading or metadata; a code there counts fully."""
INFLECTED: Final = 0.6
"""Credit of a word where a text has a synonym, or in the embedded base another form; .5 to .7 measured alike."""
_MOST_WORDS_BESIDE: Final = 3
LONGEST_TERM: Final = 200
"""Characters of a term that a store keeps; servers refuse much longer ones."""
_FEWEST_READ: Final = 6_000
_MOST_READ: Final = 60_000
Pair = tuple[str, str]
Held = str | Pair
K = TypeVar("K")


class _Name(NamedTuple):
    """One of the names of a term, or the rest of the question.

    Attributes:
        words: weight of each of its words.
        pairs: weight of each of its pairs of neighbouring words.
    """

    words: Mapping[str, float]
    pairs: Mapping[Pair, float]


class StoreQuestion(NamedTuple):
    """The terms of a question.

    Attributes:
        weights: of every term to search for, in the text's order, then those of expansions.
        groups: each with the names of one term, of which the best counts.
        credited: for each term of the question its weight, and the credit of each word and pair that stands for it.
        own: weight of the question's own terms, which also count in heads.
        shortened: whether it had more than MOST_TERMS terms.
        words: its own terms in order, with repetitions.
    """

    weights: Mapping[str, float]
    groups: tuple[tuple[_Name, ...], ...]
    credited: Mapping[str, tuple[float, Mapping[Held, float]]]
    own: Mapping[str, float]
    shortened: bool
    words: Sequence[str]


def with_synonyms(text: str, options: SearchOptions, expansions: Sequence[Expansion]) -> list[Expansion]:
    """Return the given expansions, and synonyms of every word that has none; words of the text itself are left out."""
    if not options.synonym_weight:
        return [*expansions]
    own = set(terms(text))
    expanded = set(chain.from_iterable(terms(expansion.term) for expansion in expansions))
    others = [
        Expansion(word, synonym, options.synonym_weight, SYNONYM)
        for word in dict.fromkeys(tokens(text))
        for stem in terms_of_word(word)[:1]
        if stem not in expanded
        for other, synonym in synonyms(stem).items()
        if other not in own
    ]
    return [*expansions, *others[:MOST_SYNONYMS]]


def question_of(text: str, options: SearchOptions, expansions: Sequence[Expansion]) -> StoreQuestion | None:
    """Return the question of a text and its expansions, or None if they have no term."""
    expansions = with_synonyms(text, options, expansions)
    every = {kept(term): weight for term, weight in term_weights(text).items()}
    own = dict(list(every.items())[:MOST_TERMS])
    words = [word for word in _terms(text) if word in own]
    rest, beside = dict(own), dict.fromkeys(_pairs(words), options.pairs_weight)
    others: dict[str, list[Expansion]] = {}
    for expansion in expansions:
        others.setdefault(expansion.term or expansion.text, []).append(expansion)
    groups = []
    for term, names in others.items():
        written = _terms(term) if any(name.term for name in names) else []
        mine = _Name(_taken(rest, written), _taken(beside, _pairs(written)))
        groups.append((*([mine] if mine.words else []), *(_name(name, options) for name in names)))
    groups.append((_Name(rest, beside),))
    weights = dict(own)
    for name in chain.from_iterable(groups):
        for word in (*name.words, *chain.from_iterable(name.pairs)):
            weights.setdefault(word, max(name.words.get(word, 0.0), max(name.pairs.values(), default=0.0)))
    if not weights:
        return None
    return StoreQuestion(weights, tuple(groups), dict(_credited(own, others)), own, len(every) > MOST_TERMS, words)


def _name(expansion: Expansion, options: SearchOptions) -> _Name:
    words = _terms(expansion.text)
    if len(words) > 1:
        return _Name({}, dict.fromkeys(_pairs(words), expansion.weight * options.pairs_weight))
    return _Name(dict.fromkeys(words, expansion.weight), {})


def _credited(
    own: Mapping[str, float], others: Mapping[str, Sequence[Expansion]]
) -> Iterator[tuple[str, tuple[float, Mapping[Held, float]]]]:
    """Yield each term to be covered, with its weight and the credit of the words and pairs that stand for it."""
    standing: dict[str, tuple[float, dict[Held, float]]] = {word: (weight, {word: 1.0}) for word, weight in own.items()}
    for term, names in others.items():
        credits: dict[Held, float] = {}
        for name in sorted(names, key=lambda each: each.by != SYNONYM):
            words, credit = _terms(name.text), INFLECTED if name.by == SYNONYM else 1.0
            credits |= dict.fromkeys(_pairs(words) if len(words) > 1 else words, credit)
        for word in _terms(term):
            weight, known = standing.get(word, (max(name.weight for name in names), {word: 1.0}))
            standing[word] = (weight, credits | known)
    yield from standing.items()


def kept(term: str) -> str:
    """Return a term as a store keeps it."""
    return term if len(term) <= LONGEST_TERM else term[:LONGEST_TERM]


def head_forms(name: str) -> list[list[str]]:
    """Return the terms of each spelling of a name, as the heads of a store hold them; none of one without terms."""
    forms = [[kept(term) for term in terms(spelling)] for spelling in spellings(name)]
    return [form for form in forms if form]


def code_words(weights: Mapping[str, float]) -> list[str]:
    """Return the terms with a digit of a question that has few other words, else none.

    Args:
        weights: of its terms; pieces of codes count less than 1, and are no codes.
    """
    written = [word for word, weight in weights.items() if weight == 1.0]
    codes = [word for word in written if any(map(str.isdigit, word))]
    return codes if len(written) - len(codes) <= _MOST_WORDS_BESIDE else []


class StoredTerms(NamedTuple):
    """The terms of a chunk as a store keeps them.

    Attributes:
        body: of its text, in order.
        head: of its head, distinct, in order.
        title: those of them in title and headings.
    """

    body: list[str]
    head: list[str]
    title: frozenset[str] = frozenset()

    @classmethod
    def of(cls, text: IndexText) -> StoredTerms:
        """Return the terms of a chunk."""
        head = sorted({kept(term) for term in text.head})
        return cls([kept(term) for term in text.body], head, frozenset(map(kept, text.title)))


def _terms(text: str) -> list[str]:
    return [kept(term) for term in terms(text)]


def _taken(weights: dict[K, float], names: Sequence[K]) -> dict[K, float]:
    """Remove and return the weights of some words or pairs."""
    return {name: weights.pop(name) for name in dict.fromkeys(names) if name in weights}


def _pairs(words: Sequence[str]) -> list[Pair]:
    return list(pairwise(words))


class ScoredCollection(NamedTuple):
    """The statistics of the texts that a caller may read.

    Attributes:
        chunks: the number of texts.
        words: the number of terms in them.
        in_texts, in_heads: how many texts and heads hold each term of the question.
    """

    chunks: int
    words: int
    in_texts: Mapping[str, int]
    in_heads: Mapping[str, int]

    def idf(self, term: str) -> float:
        """Return ln(1 + (N - df + 1/2) / (df + 1/2)) over the texts."""
        return self._idf(self.in_texts.get(term, 0))

    def head_idf(self, term: str) -> float:
        """Return the same over the heads."""
        return self._idf(self.in_heads.get(term, 0))

    def frequency(self, term: str) -> int:
        """Return how many chunks hold a term in text or head, whichever is more."""
        return min(max(self.in_texts.get(term, 0), self.in_heads.get(term, 0)), self.chunks)

    def rarity(self, term: str) -> float:
        """Return the same over texts and heads (`frequency`)."""
        return self._idf(self.frequency(term))

    def _idf(self, frequency: int) -> float:
        frequency = min(frequency, self.chunks)
        return log(1.0 + (self.chunks - frequency + 0.5) / (frequency + 0.5))


class LookUp(NamedTuple):
    """A term to find rows by.

    Attributes:
        in_head: whether it is to be found in heads, else in texts.
        score: of holding it, > 0.
    """

    term: str
    in_head: bool
    score: float


def look_ups(question: StoreQuestion, collection: ScoredCollection, options: SearchOptions) -> list[LookUp]:
    """Return the terms to find rows by.

    The most telling come first, as long as all of them together are held by a third as many rows as there are, 6,000 to
    60,000 counted with repetition; at least one is returned. Twice as many rows found nothing more.
    """
    most_rows = min(max(collection.chunks // 3, _FEWEST_READ), _MOST_READ)
    wanted = [
        (LookUp(term, False, weight * collection.idf(term)), collection.in_texts.get(term, 0))
        for term, weight in question.weights.items()
    ]
    wanted += [
        (LookUp(term, True, weight * _head_weight(term, options) * collection.head_idf(term)),
         collection.in_heads.get(term, 0))
        for term, weight in question.own.items()
    ]  # fmt: skip
    kept_look_ups: list[LookUp] = []
    rows = 0
    for look_up, holding in sorted(wanted, key=lambda item: (-item[0].score, item[0])):
        if holding and look_up.score > 0.0 and (not kept_look_ups or rows + holding <= most_rows):
            kept_look_ups.append(look_up)
            rows += holding
    return kept_look_ups


def _head_weight(term: str, options: SearchOptions) -> float:
    return CODE_WEIGHT if any(map(str.isdigit, term)) else options.head_weight


class FoundRow(NamedTuple):
    """A row to score.

    Attributes:
        rid: its number.
        section: the number of the first row of its section.
        doc_key: the number of its document.
        body: the terms of its text, in order.
        head: the terms of its head.
        title: those of them in title and headings.
        defined: the terms that it defines (`index_text.defined_terms`).
    """

    rid: int
    source_key: int
    doc_key: int
    section: int
    body: list[str]
    head: frozenset[str]
    title: frozenset[str] = frozenset()
    defined: frozenset[str] = frozenset()

    def holds(self, words: Sequence[str]) -> bool:
        """Return whether text and head hold every one of some words."""
        return all(word in self.head or word in self.body for word in words)


class StoreEvidence(NamedTuple):
    """The textual evidence for a question.

    Attributes:
        best: the highest text score in the store.
        trust: weight of the text against the vectors, [0, 1].
    """

    best: float
    trust: float


class Scorer:
    """Scores rows against one question.

    score = covered(sum over the groups of the best name's BM25, plus the head's idf; share), where a name's BM25 is the
    sum of idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean length)) over its words and pairs (Robertson and
    Zaragoza 2009), and share is the idf-weighted share of the question's terms that the row holds. The idf of a pair,
    whose frequency is not kept, is the sum of those of its words, as if they occurred independently of each other.
    """

    def __init__(self, question: StoreQuestion, collection: ScoredCollection, options: SearchOptions) -> None:
        self._question, self._options = question, options
        self._chunks = collection.chunks
        self._mean = max(collection.words / max(collection.chunks, 1), 1.0)
        self._idf = {term: collection.idf(term) for term in question.weights}
        self._in_head = {
            term: weight * _head_weight(term, options) * collection.head_idf(term)
            for term, weight in question.own.items()
        }
        self._information = {term: weight * collection.rarity(term) for term, (weight, _) in question.credited.items()}
        self._total = sum(self._information.values()) or 1.0
        self._standing_for: dict[Held, list[tuple[str, float]]] = {}
        for term, (_, names) in question.credited.items():
            for name, credit in names.items():
                self._standing_for.setdefault(name, []).append((term, credit))
        self._pairs = frozenset(chain.from_iterable(name.pairs for group in question.groups for name in group))

    def scores(self, rows: Sequence[FoundRow]) -> dict[int, float]:
        """Return the score of each row; siblings in its section and neighbours among the rows add to it."""
        alone = {row.rid: covered(*self._score(row)) for row in rows}
        section, document = {row.rid: row.section for row in rows}, {row.rid: row.doc_key for row in rows}
        return smoothed(alone, section, document, self._options)

    def title_shares(self, rows: Iterable[FoundRow]) -> dict[int, float]:
        """Return the share of the question's terms in title and headings of each row, [0, 1]."""
        own = self._question.own
        return {row.rid: len(row.title & own.keys()) / max(len(own), 1) for row in rows}

    def evidence(self, rows: Sequence[FoundRow]) -> StoreEvidence:
        """Return the evidence of the best of some rows."""
        score, share = max((self._score(row) for row in rows), default=(0.0, 0.0))
        best = covered(score, share) * whole(self._options)
        return StoreEvidence(best, trust(score, self._chunks, share) if rows else 0.0)

    def _score(self, row: FoundRow) -> tuple[float, float]:
        """Return the score of a row before `covered`, and its share."""
        counts, pairs = self._held(row.body)
        norm = K1 * (1.0 - B + B * len(row.body) / self._mean)
        score = 0.0
        for group in self._question.groups:
            score += max([self._of_name(name, counts, pairs, norm) for name in group])
        in_head = row.head & self._standing_for.keys()
        score += fsum([self._in_head[term] for term in in_head if term in self._in_head])
        return score, min(self._covered((*counts, *pairs), in_head) / self._total, 1.0)

    def _covered(self, terms_held: Iterable[Held], in_head: Iterable[str]) -> float:
        """Return the information of the question's terms that a row holds, half of it for those in its head only."""
        standing, credits = self._standing_for, dict[str, float]()
        for name in terms_held:
            for term, credit in standing.get(name, ()):
                credits[term] = max(credits.get(term, 0.0), credit)
        for name in in_head:
            headed = 1.0 if any(map(str.isdigit, name)) else HEADED
            for term, credit in standing[name]:
                credits[term] = max(credits.get(term, 0.0), headed if credit == 1.0 else 0.0)  # no synonym counts here
        return fsum([credit * self._information[term] for term, credit in credits.items()])

    def _of_name(self, name: _Name, counts: Mapping[str, int], pairs: Mapping[Pair, int], norm: float) -> float:
        score = 0.0
        for term, tf in counts.items():
            if weight := name.words.get(term):
                score += weight * self._idf[term] * tf * (K1 + 1.0) / (tf + norm)
        for pair, tf in pairs.items():
            if weight := name.pairs.get(pair):
                idf = self._idf[pair[0]] + self._idf[pair[1]]
                score += weight * idf * tf * (K1 + 1.0) / (tf + norm)
        return score

    def _held(self, body: Sequence[str]) -> tuple[dict[str, int], Counter[Pair]]:
        """Return how often the body holds each term and each pair of the question."""
        counts: dict[str, int] = {}
        pairs: Counter[Pair] = Counter()
        last, before = "", -2
        for place in compress(count(), map(self._idf.__contains__, body)):
            term = body[place]
            counts[term] = counts.get(term, 0) + 1
            if place == before + 1 and (last, term) in self._pairs:
                pairs[last, term] += 1
            last, before = term, place
        return counts, pairs
