"""Convert the engine's values to JSON and back by the names and types of their fields.

Fields with their default value are omitted, so that records from before a field existed stay readable. Unknown fields
are refused: they mean something that this version cannot take into account.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from context_engine.audit.record.exact import Unreadable, tagged, untagged
from context_engine.core.models import NOTHING

T = TypeVar("T")
_SCALARS: Final = (str, int, float, bool, NoneType)
_REQUIRED: Final = object()


class Form(NamedTuple):
    """The functions that write values of one type to JSON and read them; `read` raises `Unreadable`, `TypeError` or
    `ValueError`.
    """

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


class _Field(NamedTuple):
    name: str
    form: Form
    default: Any


def dumped(value: Any, *, without: Sequence[str] = ()) -> dict[str, Any]:
    """Return a dataclass or named tuple as {name: value} without default values and the fields in `without`."""
    return _write_fields(value, _fields(type(value)), without)


def loaded(kind: type[T], data: Any, **others: Any) -> T:
    """Restore what `dumped` wrote.

    Raises:
        Unreadable: an unknown or missing field, or a value of a wrong type.
    """
    return _read_fields(kind, data, others)


def columns(kind: type[Any], values: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """Return named tuples by column, {name: [value of each]}; {} for none."""
    if not values:
        return {}
    forms = (field.form for field in _fields(kind))
    return {
        name: list(column) if form.write is _PLAIN.write else [form.write(value) for value in column]
        for name, form, column in zip(kind._fields, forms, zip(*values))
    }


def from_columns(kind: type[T], data: Mapping[str, Any]) -> tuple[T, ...]:
    """Restore what `columns` wrote.

    Raises:
        Unreadable: as `loaded`, or the columns have different lengths.
    """
    if not isinstance(data, Mapping):
        raise Unreadable(f"{kind.__name__}: columns were expected")
    names = list(data)
    rows = zip(*(data[name] for name in names), strict=True)
    try:
        return tuple(loaded(kind, dict(zip(names, row))) for row in rows)
    except TypeError as error:
        raise Unreadable(f"{kind.__name__}: {error}") from None
    except ValueError as error:
        raise error if isinstance(error, Unreadable) else Unreadable(f"{kind.__name__}: {error}") from None


@cache
def form_of(kind: Any) -> Form:
    """Return the JSON form of a type.

    Args:
        kind: a scalar, enum, date or datetime, dataclass, named tuple, or tuples, mappings and unions of those; values
            of any other type are written by their own type.
    """
    origin, parts = get_origin(kind), get_args(kind)
    if kind in _SCALARS or origin is Literal:
        return _PLAIN
    if origin in (Union, UnionType):
        return _union(parts)
    if origin is tuple:
        return _tuple(parts)
    if origin is frozenset:
        return Form(sorted, frozenset)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(parts)
    return _class(kind) if isinstance(kind, type) else _ANY


def _class(kind: type[Any]) -> Form:
    if issubclass(kind, StrEnum):
        return Form(_PLAIN.write, kind)  # it is its text
    if issubclass(kind, date):
        return Form(lambda value: value.isoformat(), kind.fromisoformat)
    if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
        return Form(dumped, lambda data: loaded(kind, data))
    return _ANY


def _union(parts: tuple[Any, ...]) -> Form:
    kinds = [part for part in parts if part is not NoneType]
    if all(part in _SCALARS or get_origin(part) is Literal for part in kinds):
        return _PLAIN
    form = form_of(kinds[0]) if len(kinds) == 1 else _one_of(kinds)
    if len(kinds) == len(parts):
        return form
    return Form(
        lambda value: None if value is None else form.write(value),
        lambda data: None if data is None else form.read(data),
    )


def _one_of(kinds: Sequence[Any]) -> Form:
    """Return the form of a union of classes; the value is stored under the name of its class."""
    by_name = {kind.__name__: kind for kind in kinds}

    def read(data: Mapping[str, Any]) -> Any:
        ((name, fields),) = data.items()
        if name not in by_name:
            raise Unreadable(f"{name!r} is none of {', '.join(by_name)}")
        return loaded(by_name[name], fields)

    return Form(lambda value: {type(value).__name__: dumped(value)}, read)


def _tuple(parts: tuple[Any, ...]) -> Form:
    if len(parts) == 2 and parts[1] is Ellipsis:
        item = form_of(parts[0])
        if item is _PLAIN:
            return Form(list, tuple)
        return Form(lambda values: [item.write(value) for value in values], lambda items: tuple(map(item.read, items)))
    forms = [form_of(part) for part in parts]
    return Form(
        lambda values: [form.write(value) for form, value in zip(forms, values, strict=True)],
        lambda items: tuple(form.read(value) for form, value in zip(forms, items, strict=True)),
    )


def _mapping(parts: tuple[Any, ...]) -> Form:
    key, value = parts
    if value is Any:
        return Form(tagged, lambda data: untagged(data) or NOTHING)
    if key is str:
        form = form_of(value)
        return Form(
            lambda values: {name: form.write(value) for name, value in values.items()},
            lambda items: {name: form.read(value) for name, value in items.items()},
        )
    pair = _tuple((key, value))
    return Form(lambda values: [pair.write(item) for item in values.items()], lambda items: dict(map(pair.read, items)))


_PLAIN: Final = Form(lambda value: value, lambda data: data)
_ANY: Final = Form(tagged, untagged)
_KNOWN: Final[dict[Any, tuple[_Field, ...]]] = {}


def _fields(kind: Any) -> tuple[_Field, ...]:
    """Return the fields of a dataclass or named tuple, except those excluded from comparison."""
    fields = _KNOWN.get(kind)
    if fields is None:
        fields = _KNOWN[kind] = _fields_by_type(kind)
    return fields


def _fields_by_type(kind: Any) -> tuple[_Field, ...]:
    hints = get_type_hints(kind)
    if not dataclasses.is_dataclass(kind):
        defaults = kind._field_defaults
        return tuple(_Field(name, form_of(hints[name]), defaults.get(name, _REQUIRED)) for name in kind._fields)
    return tuple(
        _Field(field.name, form_of(hints[field.name]), _default(field))
        for field in dataclasses.fields(kind)
        if field.compare
    )


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return _REQUIRED if field.default_factory is dataclasses.MISSING else field.default_factory()


def _write_fields(value: Any, fields: Sequence[_Field], without: Sequence[str]) -> dict[str, Any]:
    out = {}
    for name, form, default in fields:
        if name in without:
            continue
        current = getattr(value, name)
        if current is default or (current == default and type(current) is type(default)):
            continue
        out[name] = form.write(current)
    return out


def _read_fields(kind: type[T], data: Any, others: Mapping[str, Any]) -> T:
    if not isinstance(data, Mapping):
        raise Unreadable(f"{kind.__name__}: an object was expected, not a {type(data).__name__}")
    fields = {field.name: field for field in _fields(kind)}
    values = dict(others)
    for name, current in data.items():
        if name not in fields or name in others:
            raise Unreadable(f"{kind.__name__} has no {name!r} in this version")
        try:
            values[name] = fields[name].form.read(current)
        except Unreadable:
            raise
        except (TypeError, ValueError, AttributeError) as error:
            raise Unreadable(f"{kind.__name__}.{name}: {error}") from None
    missing = [name for name, field in fields.items() if field.default is _REQUIRED and name not in values]
    if missing:
        raise Unreadable(f"{kind.__name__} lacks {', '.join(missing)}")
    return kind(**values)
