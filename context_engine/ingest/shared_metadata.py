"""Which of a document's fields its chunks carry in their metadata.

Front matter is what people filter by: every chunk carries it, as far as it is short. A record is the content itself:
every chunk carries what the record is known by, and the fields whose text stands in that very chunk; the others would
leave with every hit, and a record of many fields would be multiplied by its chunks. What a manifest's rule names under
`fields` stands in every chunk of either.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from context_engine.core.chunking import Piece, field_spans
from context_engine.core.models import Notice, NoticeCode
from context_engine.ingest.declared_fields import DECLARED_FIELDS, ID_FIELDS, RECORD_FIELDS, json_value
from context_engine.ingest.loaded_document import LoadedDocument, file_notice

_PLACES: Final = ("sheet", "table")
_MOST_NAMED: Final = 100
_MOST_VALUE: Final = 2_000
_MOST_ALL: Final = 16_000
"""Characters as JSON of one field, and of all fields, that every chunk carries without being told to."""


class SharedMetadata(NamedTuple):
    """What every chunk of a document carries, and what is to be said of the rest."""

    metadata: dict[str, Any]
    notices: tuple[Notice, ...] = ()


def shared_metadata(loaded: LoadedDocument, fields: Mapping[str, Any], named: Sequence[str]) -> SharedMetadata:
    """Return the metadata that all chunks of a document have in common.

    Args:
        loaded: the document.
        fields: what it says about itself, or the record.
        named: the fields that the manifest's rule names.
    """
    wanted = (*ID_FIELDS[True], *_PLACES) if loaded.record else tuple(fields)
    out: dict[str, Any] = {}
    left: list[str] = []
    room = _MOST_ALL
    for name in wanted:
        if name in DECLARED_FIELDS or name in named or fields.get(name) is None:
            continue
        value = json_value(fields[name])
        size = len(json.dumps(value, ensure_ascii=False))
        if size > min(_MOST_VALUE, room):
            left.append(name)
            continue
        out[name] = value
        room -= size
    out |= {name: json_value(fields[name]) for name in named if fields.get(name) is not None}
    return SharedMetadata({**out, "source_file": loaded.path}, _left_out(left) if left and not loaded.record else ())


def piece_fields(loaded: LoadedDocument, fields: Mapping[str, Any], pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """Return for each piece of a record the fields whose whole text stands in it.

    Args:
        loaded: the document; nothing is a piece's own where it is no record.
        fields: the record.
        pieces: of its text, in order.
    """
    if not loaded.record:
        return [{} for _ in pieces]
    if len(pieces) == 1:
        return [_plain(fields, tuple(fields))]
    spans = field_spans(loaded.text, {name: value for name, value in fields.items() if name not in RECORD_FIELDS})
    names = list(spans)
    starts = [span[0] for span in spans.values()]
    out: list[dict[str, Any]] = []
    for piece in pieces:
        inside = names[bisect_left(starts, piece.span[0]) : bisect_left(starts, piece.span[1])]
        out.append(_plain(fields, tuple(name for name in inside if spans[name][1] <= piece.span[1])))
    return out


def _plain(fields: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {
        name: json_value(fields[name]) for name in names if name not in DECLARED_FIELDS and fields[name] is not None
    }


def _left_out(names: Sequence[str]) -> tuple[Notice, ...]:
    shown = ", ".join(repr(name[:60]) for name in names[:5]) + (" …" if len(names) > 5 else "")
    what = f"the field {shown} is" if len(names) == 1 else f"{len(names)} fields ({shown}) are"
    problem = f"{what} too long for the metadata of every chunk, and left out; what a rule names under fields is kept"
    return (file_notice(NoticeCode.FIELDS_NOT_CARRIED, problem, fields=list(names[:_MOST_NAMED])),)
