"""What a report is made of, before it is Markdown or a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of texts.

    Attributes:
        columns: headings; one that begins with "<" is of text, the others of numbers.
        folded: a page shows it on demand only.
        marks: row index to "good" or "bad".
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    folded: str = ""
    marks: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A drawing and the sentence below it; Markdown leaves it out."""

    svg: str
    caption: str


Block = Text | Table | Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSection:
    """A heading with what stands below it.

    Attributes:
        wide: a page gives it the whole width.
    """

    title: str
    blocks: Sequence[Block]
    wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One number of the head of a report.

    Attributes:
        note: below the number, e.g. its interval.
        change: against the baseline, "" where there is none; `mood` says what it means: good, bad or even.
    """

    label: str
    value: str
    note: str = ""
    change: str = ""
    mood: str = "even"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDocument:
    """A report."""

    title: str
    lead: str
    tiles: Sequence[Tile]
    sections: Sequence[ReportSection]
    notes: Sequence[str] = ()
