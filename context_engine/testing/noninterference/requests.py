"""Requests made from the words of a base, and the places that a principal may not read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from random import Random
from typing import Any, Final, NamedTuple

from context_engine.core.models import Chunk, Classification, Condition, DomainSpec, FilterOp, Principal, SearchRequest
from context_engine.core.policy.access import access_class
from context_engine.core.policy.access_review import rules_in
from context_engine.core.protocols import AccessPolicy

_SENTENCE_ENDS: Final = re.compile(r"(?<=[.!?:;])\s+|\n+")
_WORD: Final = re.compile(r"[^\W\d_]{4,}")
_MOST_WORDS: Final = 14
_CONSONANTS: Final = "bdfgklmnprtvz"


def sentence_of(chunk: Chunk, draw: Random) -> str:
    """Return a sentence of a chunk, cut to the length of a question, or ""."""
    sentences = [part for part in _SENTENCE_ENDS.split(chunk.content) if _WORD.search(part)]
    return " ".join(draw.choice(sentences).split()[:_MOST_WORDS]) if sentences else ""


def heading_of(chunk: Chunk) -> str:
    """Return the heading of a chunk, or ""."""
    return next(iter(reversed(chunk.heading_path)), chunk.title or "")


def words_of(texts: Iterable[str]) -> list[str]:
    """Return the distinct words of texts in order, without numbers and short words."""
    return list(dict.fromkeys(word for text in texts for word in _WORD.findall(text)))


def misspelt(word: str, draw: Random) -> str:
    """Return a word with one typing error after its first letter: letters swapped, omitted or doubled."""
    at = draw.randrange(1, max(len(word) - 1, 2))
    slips: Sequence[str] = (
        word[:at] + word[at + 1 : at + 2] + word[at : at + 1] + word[at + 2 :],
        word[:at] + word[at + 1 :],
        word[:at] + word[at : at + 1] + word[at:],
    )
    return draw.choice(slips)


def unknown_word(draw: Random) -> str:
    """Return a word that occurs in no text."""
    return "".join(draw.choice(_CONSONANTS) + draw.choice("aeiou") for _ in range(4)) + "xq"


NO_SUCH_DOMAINS: Final = ("PROJECT-FALCON", "BOARD")
NO_SUCH_SOURCES: Final = ("board_minutes", "falcon_files")
"""Names that requests use although nothing has them (a change may create a source with such a name)."""

_CLAIMS: Final = (None, *Classification)


class HiddenPlace(NamedTuple):
    """A source in which documents can be hidden from the caller.

    Attributes:
        claims: classifications that hide a document there; None among them if the whole source is hidden.
    """

    domain: str
    source_id: str
    claims: tuple[Classification | None, ...] = _CLAIMS

    @property
    def whole(self) -> bool:
        """Whether the whole source is hidden."""
        return None in self.claims


def hidden_places(domains: Iterable[DomainSpec], policy: AccessPolicy, principal: Principal) -> Iterator[HiddenPlace]:
    """Yield each source that a principal may not read completely, with the claims that hide a document in it."""
    for domain in domains:
        scope = policy.decide(principal, domain).scope
        if scope is None:
            continue
        for source in domain.sources:
            rules = policy.rules_of(source.id)
            classes = {claim: access_class(rules, source.classification, claim) for claim in _CLAIMS}
            hidden = tuple(claim for claim in _CLAIMS if not scope.admits(classes[claim]))
            if hidden:
                yield HiddenPlace(domain.domain, source.id, hidden)


def insider_of(domains: Iterable[DomainSpec], *roles: str) -> Principal:
    """Return a principal with every role and group named in a rule, some more roles, and the highest clearance."""
    rules = tuple(rules_in(domains))
    return Principal(
        id="insider",
        roles=frozenset(roles).union(*(rule.roles for rule in rules)),
        groups=frozenset[str]().union(*(rule.groups for rule in rules)),
        clearance=Classification.RESTRICTED,
    )


_NARROWED: Final = 0.25
_ELSEWHERE: Final = 0.1
_TRIES: Final = 50


def made_requests(
    draw: Random,
    most: int,
    *,
    domains: Sequence[str],
    others: Sequence[str] = (),
    sources: Sequence[str] = (),
    readable: Sequence[Chunk] = (),
    hidden: Sequence[Chunk] = (),
) -> list[SearchRequest]:
    """Return distinct requests, a quarter with filters, a tenth for domains that the caller may not know.

    Args:
        draw: source of randomness.
        most: number of requests; fewer if the texts do not suffice.
        domains: domains that the caller may search.
        others: domains that it may not search; nonexistent ones are added.
        sources: sources that it may not search but requests name.
        readable, hidden: chunks that it may read, and some that it may not.
    """
    maker = _RequestMaker(draw, domains, (*others, *NO_SUCH_DOMAINS), (*sources, *NO_SUCH_SOURCES), readable, hidden)
    requests: dict[str, SearchRequest] = {}
    for request in maker.requests(_TRIES * most):
        requests.setdefault(repr(request), request)
        if len(requests) == most:
            break
    return list(requests.values())


class _RequestMaker:
    def __init__(
        self,
        draw: Random,
        domains: Sequence[str],
        others: Sequence[str],
        sources: Sequence[str],
        readable: Sequence[Chunk],
        hidden: Sequence[Chunk],
    ) -> None:
        self._draw, self._domains, self._others, self._sources = draw, domains, others, sources
        self._readable, self._hidden = readable, hidden
        self._words = words_of(chunk.content for chunk in (*readable, *hidden)[:500]) or ["approval", "limit"]
        own = {name for chunk in (*readable, *hidden) for name in chunk.metadata}
        self._fields = [*sorted(own), "owner", "project", "tier", "classification", "document_id"]

    def requests(self, tries: int) -> Iterator[SearchRequest]:
        for _ in range(tries):
            query = self._query().strip()
            if query:
                yield self._narrowed(SearchRequest(query=query, domain=self._domain()))

    def _domain(self) -> str:
        if not self._domains or self._draw.random() < _ELSEWHERE:
            name = self._draw.choice(self._others)
            return misspelt(name, self._draw) if self._draw.random() < 0.3 else name
        return self._draw.choice(self._domains)

    def _query(self) -> str:
        draw = self._draw
        words = draw.choices(self._words, k=draw.randint(1, 4))
        match draw.randrange(8):
            case 0 | 1 if self._readable:
                return sentence_of(draw.choice(self._readable), draw)
            case 2 | 3 if self._readable:
                return heading_of(draw.choice(self._readable))
            case 4 if self._hidden:
                return sentence_of(draw.choice(self._hidden), draw)
            case 5:
                return " ".join([misspelt(words[0], draw), *words[1:]])
            case 6:
                return " ".join([*words, unknown_word(draw)])
        return " ".join(words)

    def _narrowed(self, request: SearchRequest) -> SearchRequest:
        draw = self._draw
        if draw.random() > _NARROWED:
            return request
        match draw.randrange(5):
            case 0:
                return replace(request, filters=self._filter())
            case 1:
                return replace(request, as_of=date(2025, 6, 30))
            case 2:
                return replace(request, require_sources=(draw.choice(self._sources),))
            case 3:
                return replace(request, overrides={"sources": [draw.choice(self._sources)]})
        top_k = draw.choice((1, 3, 100))
        return replace(request, overrides=dict[str, Any](scope_threshold="auto", stage1_top_k=top_k, graph_hops=2))

    def _filter(self) -> Condition:
        draw = self._draw
        name = draw.choice(self._fields)
        op = draw.choice((FilterOp.EQ, FilterOp.CONTAINS, FilterOp.NOT_EMPTY, FilterOp.NE))
        return Condition(name, op, None if op is FilterOp.NOT_EMPTY else draw.choice(self._words))
