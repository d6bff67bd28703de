"""What a text cites: clauses of its own document, other documents, and clauses of those."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from context_engine.core.models import Chunk, CitedClause
from context_engine.core.query.features import codes, references, spellings
from context_engine.core.text import tokens

_ITEMS: Final = re.compile(r"(?:\(\w{1,4}\))+$")
_CLAUSE: Final = r"(?:sections?|clauses?|paragraphs?|part|§)\s*([A-Z]?\d[\w.]*(?:\(\w{1,4}\))*)"
_CLAUSE_OF: Final = rf"{_CLAUSE}\s+(?:of|in)\s+(?:the\s+)?$"
_AFTER: Final = rf"^,?\s+{_CLAUSE}"
_PART: Final = re.compile(r"\w+")


def citations(text: str) -> tuple[CitedClause, ...]:
    """Return the documents that a text names, each with the clause beside its name, then clauses of its own document.

    >>> citations("Rule 4.2 applies. In every other case section 5.1 of ORM-SOP-001 applies.")
    (CitedClause(document='ORM-SOP-001', clause='5.1'), CitedClause(document='', clause='4.2'))
    """
    names = codes(text)
    others = [_citation(text, name) for name in names]
    elsewhere = {clause for _, clause in others}
    own = [
        CitedClause("", number)
        for number in references(text)
        if number not in elsewhere and not any(number in name for name in names)
    ]
    return tuple(dict.fromkeys((*others, *own)))


def _citation(text: str, name: str) -> CitedClause:
    document = _ITEMS.sub("", name)
    return CitedClause(document, name.removeprefix(document) or _clause(text, name))


def _clause(text: str, name: str) -> str:
    before, _, after = text.partition(name)
    beside = re.search(_CLAUSE_OF, before, re.IGNORECASE) or re.search(_AFTER, after, re.IGNORECASE)
    return beside[1] if beside else ""


def belongs_to(chunk: Chunk, document: str) -> bool:
    """Return whether a chunk belongs to a document that is cited by its id, or by a name in its title."""
    if (chunk.document_id or "").casefold() == document.casefold():
        return True
    title = f" {' '.join(tokens(chunk.title or ''))} "
    return any(f" {' '.join(tokens(name))} " in title for name in spellings(document))


def cited_sections(sections: Sequence[str | None], clause: str) -> list[int]:
    """Return the indices of the sections that a clause number means.

    These are the sections with the number; else those below it; else the nearest one above it, which it is an item of.
    Points, brackets and spaces only separate: `8.3.3.(3)` and `8.3.3 (3)` are one number.

    Args:
        sections: the numbers of a document's chunks, in order.

    >>> cited_sections(["4", "4.1", "4.2.(1)", "4.2.(2)"], "4.2")
    [2, 3]
    >>> cited_sections(["4", "4.1", "4.2.(1)", "4.2.(2)"], "4.1(b)")
    [1]
    """
    wanted = _parts(clause)
    known = [_parts(section or "") for section in sections]
    below = [index for index, parts in enumerate(known) if wanted and parts[: len(wanted)] == wanted]
    exact = [index for index in below if known[index] == wanted]
    if exact or below:
        return exact or below
    above = max((len(parts) for parts in known if parts and wanted[: len(parts)] == parts), default=0)
    return [index for index, parts in enumerate(known) if above and parts == wanted[:above]]


def _parts(number: str) -> tuple[str, ...]:
    return tuple(_PART.findall(number.casefold()))
