"""What a refiner says, taken as an addition: the user's own words are searched for all the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from context_engine.core.models import Expansion, Notice, NoticeCode, PreparedQuery, Refinement
from context_engine.core.query.clean import clean
from context_engine.core.text import tokens
from context_engine.errors import RefinerError

MOST_CONCEPTS: Final = 8
_MOST_CHARS: Final = 2_000
_CONCEPT: Final = 0.2
"""What a concept that a model names counts against another name of a word of the user's."""


def refined(query: PreparedQuery, given: Any, *, refiner: str, weight: float) -> PreparedQuery:
    """Return the query with a refiner's wording to be searched for beside it, and its concepts as expansions.

    A wording that lost a code, a section number or a quoted phrase of the question is left out, and a notice says so.

    Args:
        query: as it was prepared.
        given: the refiner's answer.
        refiner: its name.
        weight: of expansions, [0, 1]; a concept counts a fifth of it.

    Raises:
        RefinerError: the answer is no `Refinement` of texts.
    """
    if not isinstance(given, Refinement) or not all(isinstance(one, str) for one in (given.text, *given.concepts)):
        raise RefinerError(f"{refiner} gave no wording that can be used")
    wording = clean(given.text, _MOST_CHARS).text.strip()
    lost = [name for name in (*query.codes, *query.references, *query.phrases) if not _holds(wording, name)]
    known = {query.text.casefold(), *(one.text.casefold() for one in query.expansions)}
    concepts = tuple(dict.fromkeys(one for one in (clean(text, 200).text.strip() for text in given.concepts) if one))
    added = [one for one in concepts[:MOST_CONCEPTS] if one.casefold() not in known] if weight else []
    other = wording if wording and not lost and wording.casefold() not in known else ""
    unused = Notice(
        NoticeCode.REFINEMENT_UNUSED,
        "",
        f"refiner {refiner}: its wording lost {', '.join(lost)} and is not used",
        {"refiner": refiner, "lost": lost},
    )
    return replace(
        query,
        sub_queries=(*query.sub_queries, other) if other else query.sub_queries,
        expansions=(*query.expansions, *(Expansion("", one, _CONCEPT * weight, "refiner") for one in added)),
        concepts=concepts[:MOST_CONCEPTS],
        notices=(*query.notices, unused) if wording and lost else query.notices,
        refiner=refiner,
    )


def unrefined(query: PreparedQuery, problem: str, *, refiner: str) -> PreparedQuery:
    """Return the query as it was, with a notice of why nothing was made of it."""
    detail = {"refiner": refiner, "problem": problem}
    notice = Notice(NoticeCode.QUERY_NOT_REFINED, "", f"query not refined: {problem}", detail)
    return replace(query, notices=(*query.notices, notice), refiner=refiner)


def _holds(wording: str, name: str) -> bool:
    return f" {' '.join(tokens(name))} " in f" {' '.join(tokens(wording))} "
