"""A question as it was understood: what is searched for, and what was made of the user's words."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from context_engine.core.models.notice import Notice, messages


class Expansion(NamedTuple):
    """Other words for a term of the query.

    Attributes:
        term: as it stands in the query; "" where it belongs to the whole.
        text: what it is also called.
        weight: what a match counts against one of the user's own words, (0, 1].
        by: where it is from: glossary, spelling or refiner.
    """

    term: str
    text: str
    weight: float
    by: str = "glossary"


class Refinement(NamedTuple):
    """What a refiner makes of a question.

    Attributes:
        text: the question in words that are easier to find; "" for none.
        concepts: what it is about, the most telling first.
    """

    text: str
    concepts: tuple[str, ...] = ()


class UnknownWord(NamedTuple):
    """A word of a query that a source holds nowhere.

    Attributes:
        word: as it stands in the query.
        suggestion: the nearest word that the source holds; "" where none is near.
    """

    word: str
    suggestion: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedQuery:
    """What was asked and what is searched for.

    It only adds: `text` holds every word and code of `original`, but for misspelt words where it is `corrected`.

    Attributes:
        original: as the user wrote it.
        text: cleaned; what every source is asked.
        words: the text with Chinese, Japanese and Korean cut into words by spaces, as search terms are taken from it;
            None where it is the text itself.
        language: ISO 639-1 code, "und" where the text shows none.
        codes: identifiers and named instruments (`NPA-001`, `MAS Notice 637`).
        references: section numbers (`4.2.1(b)`).
        phrases: what stands in quotes, of two words or more.
        expansions: other words, which count less than the user's own.
        sub_queries: parts or other wordings of the question that are searched for beside it.
        concepts: what the question is about, as a refiner says.
        suggestions: likely spellings, (as written, as the glossary or the texts have it).
        corrected: the suggestions stand in `text` instead of what was written, for which nothing was found; else they
            are offered only.
        notices: what was done, or could not be, for a reader.
        refiner: name of the refiner that was asked, None for none.
    """

    original: str
    text: str
    words: str | None = None
    language: str = "und"
    codes: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    expansions: tuple[Expansion, ...] = ()
    sub_queries: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()
    suggestions: tuple[tuple[str, str], ...] = ()
    corrected: bool = False
    notices: tuple[Notice, ...] = ()
    refiner: str | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """The sentences of the notices."""
        return messages(self.notices)

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        published = ("notes" if one.name == "notices" else one.name for one in fields(self))
        return {
            **{name: getattr(self, name) for name in published},
            "expansions": [expansion._asdict() for expansion in self.expansions],
            "suggestions": [{"written": written, "known_as": known} for written, known in self.suggestions],
        }
