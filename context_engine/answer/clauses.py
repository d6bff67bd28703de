"""The clauses of a passage that a sentence may rest on, each with the conditions that bind it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Final, NamedTuple

from context_engine.answer.reading import CONTENT, MeaningKind, MeaningToken, Tokens, content_keys, read
from context_engine.answer.sentences import Statement, StatementKind, statements
from context_engine.answer.values import Evidence
from context_engine.core.text import stems

_MOST_SEGMENTS: Final = 12
_MOST_PARTS: Final = 60
_REFERS_BACK: Final = re.compile(r"\bsuch an?\b")
_BINDING: Final = (MeaningKind.CONDITION, MeaningKind.EXCEPTION)
_CURRENCY: Final = stems(["currency"])[0]


class ClauseCell(NamedTuple):
    """A cell of a table, or a field of a record, with the words of its column or name."""

    column: tuple[MeaningToken, ...]
    tokens: tuple[MeaningToken, ...]


class _Segment(NamedTuple):
    tokens: tuple[MeaningToken, ...]
    binds: bool


class Clause(NamedTuple):
    """What a sentence is compared with: a statement of a passage, read, or a part of it.

    Attributes:
        tokens: of its lead-in, then its own in the order of the passage; of a row with the names of its columns.
        lead: the tokens of its lead-in.
        keys: of the content of the whole statement and of what stands around it.
        context: keys of what stands around it: headings, column names, the sentence that "such a" refers to.
        before: keys of the lead-in and of the sentence that the clause refers back to.
        parts: the segments of the whole statement; the parts stand between semicolons.
        cells: of a row of a table or record, its name first; empty for prose.
        bound: the conditions and exceptions of a part of a statement, each apart.
        referents: keys of what a pronoun at its beginning may stand for, the subject of the sentence before.
        other_rows: keys that only other rows of the table have.
        written: the words around it as they are written, in the singular.
    """

    statement: Statement
    tokens: tuple[MeaningToken, ...]
    lead: tuple[MeaningToken, ...]
    keys: frozenset[str]
    context: frozenset[str]
    before: frozenset[str]
    parts: tuple[tuple[_Segment, ...], ...] = ()
    cells: tuple[ClauseCell, ...] = ()
    bound: tuple[tuple[MeaningToken, ...], ...] = ()
    referents: frozenset[str] = frozenset()
    other_rows: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()

    @property
    def own(self) -> tuple[MeaningToken, ...]:
        """The tokens without the lead-in."""
        return self.tokens[len(self.lead) :]

    def clauses(self, asked: frozenset[str], *, several: bool = False) -> Iterator[Clause]:
        """Yield the clauses that a sentence may rest on.

        Args:
            asked: the keys of the sentence's content; they choose the cells of a row.
            several: whether the sentence itself has parts between semicolons.
        """
        if self.cells:
            yield _of_cells(self, asked)
            return
        if len(self.parts) > 1 and several:
            yield self._clause([segment for part in self.parts for segment in part])
        for part in self.parts:
            yield from self._runs(part)

    def _runs(self, part: Sequence[_Segment]) -> Iterator[Clause]:
        """Yield each run of neighbouring segments with the conditions that bind it and the subject it shares.

        What stands before the first predicate is no clause.
        """
        plain = [place for place, segment in enumerate(part) if not segment.binds]
        if not plain or len(plain) > _MOST_PARTS:
            yield self._clause(part)
            return
        acts = [place for place in plain if _acts(part[place])]
        for first, start in enumerate(plain):
            acting = next((part[place] for place in reversed(acts) if place < start), None)
            for end in plain[first : first + _MOST_SEGMENTS]:
                if acts and end < acts[0]:
                    continue
                chosen = [segment for place, segment in enumerate(part) if _belongs(part, place, start, end)]
                if start == end and (whole := _filled(acting, part[start])):
                    chosen = [_Segment(whole, False) if segment is part[start] else segment for segment in chosen]
                elif start > plain[0] and (subject := _shared_subject(part[plain[0] : start], part[start])):
                    chosen = [_Segment(subject, False), *_behind(part[plain[0] : start]), *_joined(subject, chosen)]
                yield self._clause(chosen)

    def _clause(self, chosen: Sequence[_Segment]) -> Clause:
        tokens = (*self.lead, *(token for segment in chosen for token in segment.tokens))
        return self._replace(tokens=tokens, bound=tuple(segment.tokens for segment in chosen if segment.binds))


@lru_cache(maxsize=512)
def stated(evidence: Evidence) -> tuple[Clause, ...]:
    """Return the statements of a passage, read; whole lists are left out, because their items are in it."""
    members = [statement for statement in statements(evidence) if statement.kind is not StatementKind.LIST]
    fields = [statement for statement in members if statement.kind is StatementKind.FIELD]
    out = [_read(statement) for statement in members if statement.kind is not StatementKind.FIELD]
    in_rows = frozenset[str]().union(*(content_keys(cell.tokens) for item in out for cell in item.cells))
    out = [item._replace(other_rows=in_rows - item.keys) if item.cells else item for item in out]
    return (*out, _record(evidence, fields)) if fields else tuple(out)


def _read(statement: Statement) -> Clause:
    cells = tuple(
        ClauseCell(read(statement.text([cell.column])), read(statement.text([cell.span]))) for cell in statement.cells
    )
    own = read(statement.text())
    shown = [statement.text([span]) for span in statement.above]
    above = [token for text in shown for token in read(text)]
    lead = tuple(token for text in shown if not text.endswith((".", "!", "?")) for token in read(text))
    near = statement.around if cells else statement.around[-1:] if _REFERS_BACK.search(statement.text()) else ()
    beside = (*statement.headings, *(statement.text([span]) for span in near))
    around = [token for text in beside for token in read(text)]
    context = content_keys((*around, *(token for cell in cells for token in cell.column)))
    before = content_keys(above)
    keys = content_keys(own) | context | before
    last = next((read(text) for text in shown[-1:] if text.endswith((".", "!", "?"))), ())
    referents = content_keys([*_first_phrase(last)])
    written = frozenset(token.written.removesuffix("s") for token in around)
    tokens = _of(cells) if cells else (*lead, *own)
    return Clause(
        statement, tokens, lead, keys, context, before, _parts(own), cells, referents=referents, written=written
    )


def _first_phrase(sentence: Tokens) -> Iterator[MeaningToken]:
    """Yield the first words of a sentence that name something, up to a verb or preposition; "for new desks," apart."""
    commas = (place for place, token in enumerate(sentence) if token.key == ",")
    leads_in = sentence and sentence[0].kind in (*_BINDING, MeaningKind.LINK, MeaningKind.BOUND)
    leads_in = leads_in and sentence[0].key != "it"
    start = next(commas, 0) if leads_in else 0
    begun = False
    for token in sentence[start:]:
        if begun and token.kind not in CONTENT:
            return
        begun = token.kind in CONTENT
        yield token


def _record(evidence: Evidence, fields: Sequence[Statement]) -> Clause:
    """Return the fields of a record as one row."""
    cells = tuple(_field(field) for field in fields)
    heading = [token for field in fields[:1] for text in field.headings for token in read(text)]
    spans = tuple(span for field in fields for span in field.spans)
    names = [token for cell in cells for token in cell.column]
    title = read(evidence.text[: spans[0][0]])
    currency = [token for cell in cells if _CURRENCY in content_keys(cell.column) for token in cell.tokens]
    context = content_keys((*heading, *names, *title, *currency))
    keys = content_keys([token for cell in cells for token in cell.tokens]) | context
    statement = fields[0]._replace(spans=spans)
    return Clause(statement, _of(cells), (), keys, context, frozenset(), cells=(ClauseCell((), ()), *cells))


def _of(cells: Iterable[ClauseCell]) -> tuple[MeaningToken, ...]:
    return tuple(token for cell in cells for token in (*cell.column, *cell.tokens))


def _field(field: Statement) -> ClauseCell:
    name, _, value = field.text().partition(":")
    return ClauseCell(read(name), read(value))


def _of_cells(row: Clause, asked: frozenset[str]) -> Clause:
    """Return a row's name and the cells that a sentence speaks of; the others show their columns alone."""
    head, *others = row.cells
    asked -= content_keys(head.tokens)
    named = [cell for cell in others if content_keys(cell.column) & asked]
    contents = [content_keys(cell.tokens) for cell in others]
    repeated = [keys for keys in contents if head.tokens and contents.count(keys) > 1]
    chosen = [cell for cell in named or others if _is_asked(cell, asked, content_keys(head.tokens), repeated)]
    shown = (cell if cell in chosen else cell._replace(tokens=()) for cell in others)
    return row._replace(tokens=(*head.tokens, *_of(chosen)), lead=(), cells=(head, *shown))


def _is_asked(
    cell: ClauseCell, asked: frozenset[str], name: frozenset[str], repeated: Sequence[frozenset[str]]
) -> bool:
    """Return whether a sentence has half of a cell's words, the row's name apart.

    Of a cell without words ("none"), or of one of several cells that say the same ("yes"), it has the column.
    """
    keys, column = content_keys(cell.tokens), content_keys(cell.column) - name
    if not keys or keys in repeated:
        return bool(column) and column <= asked
    return keys <= name or len((keys - name) & asked) * 2 >= len(keys - name)


def _parts(tokens: Tokens) -> tuple[tuple[_Segment, ...], ...]:
    """Cut a sentence at semicolons, and each part at commas, coordinators and conditions."""
    parts: list[list[_Segment]] = [[]]
    current: list[MeaningToken] = []
    binds = False

    def close() -> None:
        nonlocal binds
        if any(token.kind is not MeaningKind.BREAK for token in current):
            parts[-1].append(_Segment(tuple(current), binds))
            current.clear()
        binds = False

    for token in tokens:
        if token.kind is MeaningKind.BREAK and not (binds and token.key in ("and", "or")):
            close()
            if token.key == ";":
                parts.append([])
        elif token.kind in _BINDING and not binds:
            only = current[-1:] if current and current[-1].kind is MeaningKind.ONLY else []
            del current[len(current) - len(only) :]
            close()
            current += only
            binds = True
        current.append(token)
    close()
    return tuple(tuple(part) for part in parts if part)


def _belongs(part: Sequence[_Segment], place: int, start: int, end: int) -> bool:
    """Return whether a segment is in a run, or binds it: a condition or exception before every predicate, before a run
    that goes on with it and has no predicate, or anywhere behind the run.
    """
    if start <= place <= end:
        return True
    if not part[place].binds:
        return False
    if place > end:
        return True
    is_continued = not any(_acts(segment) for segment in part[place + 1 : start + 1])
    return is_continued or not any(_acts(segment) for segment in part[:place] if not segment.binds)


def _joined(subject: Tokens, chosen: Sequence[_Segment]) -> Iterator[_Segment]:
    """Yield the segments to follow a subject; behind a modal the first one loses its comma or conjunction."""
    opening, *others = chosen
    is_cut = subject[-1].kind is MeaningKind.MODAL and opening.tokens[0].kind is MeaningKind.BREAK
    yield opening._replace(tokens=opening.tokens[is_cut:])
    yield from others


def _acts(segment: _Segment) -> bool:
    """Return whether a segment has a modal or a form of "be"."""
    return any(token.kind is MeaningKind.MODAL or token.key == "be" for token in segment.tokens)


def pair_link(tokens: Tokens) -> int | None:
    """Return the place of the preposition in a part without a verb ("and seals by the Board"); None in other parts."""
    if tokens[0].key not in (",", "and", "or") or any(t.kind is MeaningKind.MODAL or t.key == "be" for t in tokens):
        return None
    links = (place for place, token in enumerate(tokens) if token.kind is MeaningKind.LINK and token.key != "it")
    place = next(links, 0)
    return place if content_keys(tokens[:place]) and content_keys(tokens[place:]) else None


def _filled(earlier: _Segment | None, later: _Segment) -> tuple[MeaningToken, ...]:
    """Return a part with the verb that it leaves out because an earlier part has it: "seals must be kept by the Board".

    Empty if the verb has an object, because the part may begin with another one: "send keys to Rome and seals to Oslo".
    """
    link = pair_link(later.tokens)
    tokens = () if earlier is None or link is None else earlier.tokens
    modal = next((place for place, token in enumerate(tokens) if token.kind is MeaningKind.MODAL), 0)
    if link is None or not content_keys(tokens[:modal]):
        return ()
    verb = [*takewhile(lambda token: token.key != later.tokens[link].key, tokens[modal:])]
    is_cut = len(verb) < len(tokens[modal:]) and len(content_keys(verb)) == 1
    return (*later.tokens[1:link], *verb, *later.tokens[link:]) if is_cut else ()


def _behind(earlier: Sequence[_Segment]) -> Iterator[_Segment]:
    """Yield the conditions between a subject and its predicates: "a login, if it is old, is closed and reported".

    A first part without a modal is the subject as a whole: "it is right, if they agree, for them to act". A modal at
    its end belongs to the predicate: "it must, if they agree, be done".
    """
    first, *others = earlier
    if first.tokens[-1].kind is MeaningKind.MODAL or all(token.kind is not MeaningKind.MODAL for token in first.tokens):
        yield from takewhile(lambda segment: segment.binds, others)


def _begins(segment: _Segment) -> MeaningKind:
    return next(token.kind for token in segment.tokens if token.kind is not MeaningKind.BREAK)


def _shared_subject(earlier: Sequence[_Segment], later: _Segment) -> tuple[MeaningToken, ...]:
    """Return the words before the first modal of a part, if a later segment begins with a modal or verb of its own.

    A later segment without a modal may hang on that of a segment between, and then has no subject from here.
    """
    first, *between = ([token.kind for token in segment.tokens] for segment in earlier)
    tokens = earlier[0].tokens
    if MeaningKind.MODAL not in first:
        hangs = _begins(later) is not MeaningKind.MODAL and any(MeaningKind.MODAL in kinds for kinds in between)
        return () if hangs else tokens
    subject = tokens[: first.index(MeaningKind.MODAL)]
    if any(token.kind is MeaningKind.MODAL for token in later.tokens):
        return subject
    return (*subject, *(token for token in tokens if token.kind in (MeaningKind.MODAL, MeaningKind.NEGATION)))
