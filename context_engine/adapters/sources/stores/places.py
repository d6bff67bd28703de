"""The place of a document: the access class that the configuration and its own claims put it in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from context_engine.core.models import AccessClass, Chunk, Classification, SourceSpec
from context_engine.core.policy.access import access_class


class SourcePlace(NamedTuple):
    """Who may read a source, according to the configuration.

    Attributes:
        rules: all of its access rules (`AccessPolicy.rules_of`), or "".
        classification: the declared one.
    """

    rules: str = ""
    classification: Classification = Classification.INTERNAL

    def holds(self, claimed: Classification | None) -> AccessClass:
        """Return the class of a document of the source."""
        return access_class(self.rules, self.classification, claimed)


Place = Callable[[str], SourcePlace | None]
"""From a source's id to its place; None if unknown."""


def places(specs: Iterable[SourceSpec], rules_of: Callable[[str], str]) -> Place:
    """Return the places of some sources."""
    return {spec.id: SourcePlace(rules_of(spec.id), spec.classification) for spec in specs}.get


def claimed_by(chunks: Iterable[Chunk]) -> Classification | None:
    """Return the highest classification claimed by a chunk of a document, which is placed as a whole."""
    claims = (chunk.classification for chunk in chunks if chunk.classification is not None)
    return max(claims, key=lambda claim: claim.rank, default=None)
