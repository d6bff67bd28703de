"""What a query names exactly comes first: quoted phrases, identifiers, section numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from context_engine.models import PreparedQuery
from context_engine.text import tokens

__all__ = ["exact_first", "names_held"]

_CLAUSE: Final = re.compile(r"(\w+(?:\.\w+)*)((?:\(\w{1,4}\))+)")
_ITEM: Final = re.compile(r"\(\w{1,4}\)")
_DOTTED_ITEM: Final = re.compile(r"\.(?=\()")


def names_held(query: PreparedQuery, texts: Sequence[str], labels: Sequence[str] = ()) -> list[float]:
    """Return for each text the share of the query's exact names that it holds, [0, 1]; all 0 where it has none.

    Exact names are the quoted phrases, codes and section numbers. A name is held where its words stand side by side in
    the text or in its label. A clause is also held by a text of its section that has the item: `4.2.1(b)` by "(b)"
    under a label with `4.2.1`.

    Args:
        query: the prepared query.
        texts: the pool.
        labels: what each text is headed by (title, headings, section, document id).
    """
    names = [_joined(name) for name in (*query.phrases, *query.codes, *query.references)]
    if not names:
        return [0.0] * len(texts)
    heads = labels or [""] * len(texts)
    return [_share(names, text, head) for text, head in zip(texts, heads, strict=True)]


def exact_first(relevance: Sequence[float], held: Sequence[float], margin: float) -> list[float]:
    """Return relevance in [0, 1] in which a text that holds all exact names leads one with none by more than `margin`.

    With w = (1 + margin) / 2 it is (1 - w) * relevance + w * held / max(held), so that the order among those that hold
    the same stays. All stays as it is where all hold the same.

    Args:
        relevance: [0, 1] each.
        held: as `names_held` gives it.
        margin: [0, 1]; at authority_weight * (highest - lowest boost) / relevance_weight no tier turns it round.
    """
    best = max(held, default=0.0)
    if best == min(held, default=0.0):
        return list(relevance)
    weight = (1.0 + margin) / 2.0
    return [(1.0 - weight) * value + weight * share / best for value, share in zip(relevance, held, strict=True)]


def _joined(text: str) -> str:
    return f" {' '.join(tokens(_DOTTED_ITEM.sub('', text)))} "


def _share(names: Sequence[str], text: str, label: str) -> float:
    body, head, spelled = _joined(text), _joined(label), text.casefold()
    return sum(name in body or name in head or _is_item(name.strip(), head, spelled) for name in names) / len(names)


def _is_item(name: str, head: str, text: str) -> bool:
    clause = _CLAUSE.fullmatch(name)
    if clause is None:
        return False
    items = _ITEM.findall(clause[2])
    sections = [clause[1] + "".join(items[:count]) for count in range(len(items))]
    return any(
        f" {section} " in head and all(map(text.__contains__, items[at:])) for at, section in enumerate(sections)
    )
