"""Suggestions as a person types: titles, headings and glossary terms of the documents that the person may read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from heapq import nsmallest
from pathlib import Path
from typing import Final

from cachetools import TTLCache

from context_engine.core.concurrency.forking import Lock
from context_engine.core.models import AccessScope, Chunk, DomainSpec, Principal, SourceSpec
from context_engine.core.policy.access import access_class
from context_engine.core.policy.trust import effective_authority
from context_engine.errors import SourceError, StoreError
from context_engine.wiring.examine import listed_chunks
from context_engine.wiring.setup import Setup

MOST: Final = 8
_KEPT_S: Final = 30.0
_MOST_LISTS: Final = 64
_MOST_CHUNKS: Final = 50_000
"""A source with more chunks suggests nothing: listing them at every change would cost more than it helps."""

_LEAST_TYPED: Final = 2
_LONGEST: Final = 120
_NUMBER: Final = re.compile(r"^#*\s*§?\d+(\.\d+)*[.)]?\s+")


class Suggestions:
    """Suggests titles, headings and terms of a domain; a listing is reused for 30 seconds. Thread-safe.

    Args:
        setup: the configuration; its access policy decides what a principal may read.
        data_dir: the data folder; None: the default.
    """

    def __init__(self, setup: Setup, data_dir: Path | None) -> None:
        self._setup, self._data_dir = setup, data_dir
        self._lock = Lock()
        self._lists: TTLCache[tuple[str, frozenset[str], AccessScope | None], tuple[str, ...]] = TTLCache(
            _MOST_LISTS, _KEPT_S
        )

    def of(self, principal: Principal, domain: DomainSpec, typed: str) -> tuple[str, ...]:
        """Return at most 8 texts that contain what was typed, those that begin with it first, then the shortest.

        Args:
            domain: as the principal knows it, with only the sources that the principal may search.
            typed: the beginning of a question; less than two characters suggest nothing.

        Raises:
            PolicyError: the access policy failed.
        """
        wanted = " ".join(typed.casefold().split())
        if len(wanted) < _LEAST_TYPED:
            return ()
        matching = (text for text in self._texts(principal, domain) if wanted in text.casefold())
        return tuple(nsmallest(MOST, matching, key=lambda text: (_place(text, wanted), len(text), text)))

    def _texts(self, principal: Principal, domain: DomainSpec) -> tuple[str, ...]:
        """Return everything that may be suggested to a principal."""
        scope = self._setup.access.decide(principal, self._setup.registry.domain(domain.domain)).scope
        key = (domain.domain, frozenset(source.id for source in domain.sources), scope)
        with self._lock:
            known = self._lists.get(key)
        if known is None:
            masks = self._setup.resolver.base(domain).values.mask_contexts
            plain = (self._setup.mask() if masks else None) or str
            known = tuple(dict.fromkeys(map(plain, self._listed(domain, scope))))
            with self._lock:
                self._lists[key] = known
        return known

    def _listed(self, domain: DomainSpec, scope: AccessScope | None) -> Iterator[str]:
        yield from domain.glossary
        for spec in domain.sources:
            yield from self._of_source(domain, spec, scope)

    def _of_source(self, domain: DomainSpec, spec: SourceSpec, scope: AccessScope | None) -> list[str]:
        """Return the texts of a source; none of a document with a chunk that may not be read."""
        texts: dict[str, list[str]] = {}
        withheld = set[str]()
        try:
            with listed_chunks(self._setup, self._setup.data_dir(self._data_dir), domain, spec) as listed:
                for number, chunk in enumerate(listed or ()):
                    if number == _MOST_CHUNKS:
                        return []
                    document = chunk.document_id or chunk.chunk_id
                    texts.setdefault(document, []).extend(_texts_of(chunk))
                    if scope is not None and not self._admitted(spec, chunk, scope):
                        withheld.add(document)
        except (SourceError, StoreError):  # a search reports the problem
            return []
        return [text for document, named in texts.items() if document not in withheld for text in named]

    def _admitted(self, spec: SourceSpec, chunk: Chunk, scope: AccessScope) -> bool:
        claimed = effective_authority(chunk, spec).classification
        return scope.admits(access_class(self._setup.access.rules_of(spec.id), spec.classification, claimed))


def _texts_of(chunk: Chunk) -> Iterator[str]:
    """Yield the title and the innermost heading of a chunk, without the numbers of sections."""
    for text in (chunk.title or "", *chunk.heading_path[-1:]):
        line = _NUMBER.sub("", " ".join(text.split()))
        if line and len(line) <= _LONGEST and line.isprintable():
            yield line


def _place(text: str, wanted: str) -> int:
    """Return 0 if a text begins with what is wanted, 1 if a word of it does, else 2."""
    lowered = text.casefold()
    return 0 if lowered.startswith(wanted) else 1 if f" {wanted}" in lowered else 2
