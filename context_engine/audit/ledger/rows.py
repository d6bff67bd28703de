"""Many rows in and out at once, in the driver's own words: SQLAlchemy's cost for each row would be the greater part."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any, Final, TypeVar

from sqlalchemy import BigInteger, Column, Connection, Float, Integer, LargeBinary, Table, Text

_Item = TypeVar("_Item")
Value = str | bytes | int | float | None
_MOST_PARAMETERS: Final = 500
_ARRAYS: Final = ((BigInteger, "int8"), (Integer, "int4"), (Float, "float8"), (LargeBinary, "bytea"), (Text, "text"))


def insert_rows(connection: Connection, table: Table, rows: Sequence[tuple[Value, ...]], *, conflict: str = "") -> None:
    """Insert rows that have a value for each column that the database does not number by itself.

    Args:
        connection: in a transaction that writes.
        table: of the ledger.
        rows: in the order of its columns.
        conflict: what to do about one that is there already, as SQL behind ON CONFLICT; "": an error.
    """
    if not rows:
        return
    statement = _insertion(table, connection.dialect.name, conflict)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(statement, list(rows))
    else:
        connection.exec_driver_sql(statement, tuple(list(column) for column in zip(*rows, strict=True)))


def rows_where(
    connection: Connection, statement: str, values: Collection[str] | Collection[bytes]
) -> Iterator[Sequence[Any]]:
    """Yield the rows of a statement for any number of values.

    Args:
        connection: to the ledger's database.
        statement: with {values} where a condition on one of them stands: "WHERE name {values}".
        values: what that may be.
    """
    for part in parts(values):
        if connection.dialect.name == "sqlite":
            found = connection.exec_driver_sql(_one_of(statement, len(part)), tuple(part) * statement.count("{"))
        else:
            given = tuple(part for _ in range(statement.count("{")))
            found = connection.exec_driver_sql(statement.replace("{values}", "= ANY(%s)"), given)
        yield from found.all()


def parts(items: Collection[_Item], most: int = _MOST_PARAMETERS) -> Iterator[list[_Item]]:
    """Yield items in lists that a statement takes as parameters.

    Args:
        items: any number of them.
        most: of a list.
    """
    left = iter(items)
    while part := list(islice(left, most)):
        yield part


@cache
def _insertion(table: Table, dialect: str, conflict: str) -> str:
    columns = [column for column in table.columns if column.autoincrement is not True]
    head = f"INSERT INTO {table.name} ({', '.join(column.name for column in columns)})"
    if dialect == "sqlite":
        values = f"VALUES ({', '.join('?' * len(columns))})"
    else:  # one statement, whatever the number of rows
        values = f"SELECT * FROM unnest({', '.join(f'%s::{_array(column)}[]' for column in columns)})"
    return f"{head} {values}" + (f" ON CONFLICT {conflict}" if conflict else "")


@cache
def _one_of(statement: str, number: int) -> str:
    return statement.replace("{values}", f"IN ({', '.join('?' * number)})")


def _array(column: Column[Any]) -> str:
    return next(name for kind, name in _ARRAYS if isinstance(column.type, kind))
