"""What a text must have in common with another for the guard to allow their merge: a quick no for most pairs."""

from __future__ import annotations

from context_engine.core.ranking.dedup_lexicon import meaning
from context_engine.core.text import tokens


def marks(text: str) -> tuple[str, ...] | None:
    """Return the meaningful tokens of a text, sorted, each as often as it stands there; None where they say nothing.

    Texts of different marks never pass `guard.allows`: it sets aside only what both have, and of the rest the
    meaningful tokens must be the same ones. Left out is what the guard may read in two ways: signs, which it spells by
    what stands before them, and the stems that are no stem of themselves, which a code may be spelled like. Texts that
    are not ASCII have no marks: the guard folds their characters first.

    Args:
        text: the body of a text.
    """
    if not text.isascii():
        return None
    found = [what for token in tokens(text) if (what := meaning(token)) and not token.startswith("sign")]
    return tuple(sorted(what for what in found if meaning(what) == what))
