"""How a type of document is cut: the table of methods, sizes and overlaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from context_engine.errors import ConfigError, nearest

if TYPE_CHECKING:
    from context_engine.core.chunking.outline import TextStructure

Method = Literal["section_aware", "fixed_size", "field_level"]
LEAST_SIZE: Final = 16
MOST_SIZE: Final = 8192
BOOKKEEPING_KEYS: Final = frozenset(
    (
        *("token_count", "content_sha256", "previous_chunk_id", "next_chunk_id", "page", "page_end"),
        *("line", "row", "chunk_index", "created_at"),
    )
)
"""Not searched: with the next chunk's id as text, a chunk would match its neighbour's number."""


@dataclass(frozen=True, slots=True)
class ChunkingStrategy:
    """How one type of document is cut.

    Attributes:
        method: along sections, in windows of fixed size, or field by field.
        chunk_size: most tokens of a piece, 16-8192.
        overlap: most tokens that a piece repeats from the one before, 0 to chunk_size - 1.
        metadata_fields: fields that every chunk of the type carries if the document has them.

    Raises:
        ConfigError: a field out of its range.
    """

    method: Method
    chunk_size: int
    overlap: int
    metadata_fields: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            raise ConfigError(f"method {self.method!r} is not known.{nearest(self.method, get_args(Method))}")
        for name, least in (("chunk_size", LEAST_SIZE), ("overlap", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST_SIZE:
                raise ConfigError(f"{name} must be a whole number from {least} to {MOST_SIZE}, got {value!r}")
        if self.overlap >= self.chunk_size:
            raise ConfigError(f"overlap {self.overlap} must be smaller than chunk_size {self.chunk_size}")
        if self.method == "field_level" and self.overlap:
            raise ConfigError(f"overlap must be 0 for field_level (no field is in two chunks), got {self.overlap}")

    def capped(self, tokens: int) -> ChunkingStrategy:
        """Return the strategy with chunk_size at most `tokens` and the overlap below it."""
        if self.chunk_size <= tokens:
            return self
        return replace(self, chunk_size=tokens, overlap=min(self.overlap, tokens // 4))

    def to_dict(self) -> dict[str, Any]:
        """Return the four fields, ready for JSON."""
        return {
            "method": self.method,
            "chunk_size": self.chunk_size,
            "overlap": self.overlap,
            "metadata_fields": list(self.metadata_fields),
        }


DEFAULT_STRATEGIES: Final[Mapping[str, ChunkingStrategy]] = MappingProxyType(
    {
        "sop_document": ChunkingStrategy("section_aware", 512, 64, ("section_number", "version", "date")),
        "regulatory_notice": ChunkingStrategy("section_aware", 384, 48, ("jurisdiction", "regulator", "id")),
        "template_document": ChunkingStrategy("fixed_size", 512, 64, ("template_id", "version")),
        "entity_record": ChunkingStrategy("field_level", 256, 0, ("entity_id", "fetched_at")),
        "default": ChunkingStrategy("fixed_size", 512, 64),
    }
)
PROFILES: Final[Mapping[str, ChunkingStrategy]] = MappingProxyType(
    {
        "funnel": ChunkingStrategy(
            "section_aware", 800, 150, ("source_file", "section", "heading", "chunk_index", "created_at")
        )
    }
)
"""Strategies that a source chooses by name, for documents of any type."""


def get_profile(name: str, table: Mapping[str, ChunkingStrategy] | None = None) -> ChunkingStrategy:
    """Return the profile with this name: a row of the table, else a built-in profile.

    >>> get_profile("funnel").chunk_size
    800

    Raises:
        ConfigError: unknown; the error lists the known ones.
    """
    known = {**PROFILES, **(DEFAULT_STRATEGIES if table is None else table)}
    if name not in known:
        raise ConfigError(f"chunking profile {name!r} is not known.{nearest(name, known)}")
    return known[name]


def get_strategy(doc_type: str | None, table: Mapping[str, ChunkingStrategy] | None = None) -> ChunkingStrategy:
    """Return the row of a document type; an unknown type, or None, gets the `default` row.

    >>> get_strategy("regulatory_notice").chunk_size
    384
    """
    rows = DEFAULT_STRATEGIES if table is None else table
    return rows.get(doc_type or "default") or rows.get("default") or DEFAULT_STRATEGIES["default"]


def strategy_for(structure: TextStructure, table: Mapping[str, ChunkingStrategy] | None = None) -> ChunkingStrategy:
    """Return the strategy for a text without a declared type, according to its structure.

    Records are cut as `entity_record` is. Sections are cut with the size and the overlap of the `default` row and carry
    the fields of `sop_document`; text without sections gets the `default` row, and so does every text if the table
    gives that row a method of its own.

    >>> from context_engine.core.chunking.outline import TextStructure
    >>> strategy_for(TextStructure("sections", 3)).method, strategy_for(TextStructure("windows")).method
    ('section_aware', 'fixed_size')
    """
    default = get_strategy(None, table)
    if structure.kind == "fields":
        return get_strategy("entity_record", table)
    if structure.kind == "windows" or default.method != DEFAULT_STRATEGIES["default"].method:
        return default
    fields = (*default.metadata_fields, *get_strategy("sop_document", table).metadata_fields)
    return replace(default, method="section_aware", metadata_fields=tuple(dict.fromkeys(fields)))


def read_strategies(rows: Mapping[str, Any], *, file: str | None = None) -> dict[str, ChunkingStrategy]:
    """Return the built-in table with `rows` laid over it, field by field; a new type starts from `default`, a
    built-in profile from itself.

    Args:
        rows: {doc_type: {"method", "chunk_size", "overlap", "metadata_fields"}}, every field optional.

    Raises:
        ConfigError: a row that is not a mapping, an unknown field, a value out of range.
    """
    if not isinstance(rows, Mapping):
        raise ConfigError(f"expected a table of strategies, got {rows!r}", file=file, key="chunking_strategies")
    table = dict(DEFAULT_STRATEGIES)
    problems: list[ConfigError] = []
    for doc_type, row in rows.items():
        base = table.get(doc_type) or PROFILES.get(doc_type) or table["default"]
        try:
            table[doc_type] = _overlaid(base, row)
        except ConfigError as error:
            problems.append(ConfigError(error.problem, file=file, key=f"chunking_strategies.{doc_type}"))
    if problems:
        raise ConfigError.together(problems)
    return table


def _overlaid(base: ChunkingStrategy, row: Any) -> ChunkingStrategy:
    if not isinstance(row, Mapping):
        raise ConfigError(f"expected the fields of a strategy, got {row!r}")
    known = base.to_dict()
    for name in row:
        if name not in known:
            raise ConfigError(f"unknown field {name!r}.{nearest(str(name), known)}")
    merged = {**known, **row}
    fields = merged.pop("metadata_fields")
    if not isinstance(fields, (list, tuple)) or not all(isinstance(name, str) for name in fields):
        raise ConfigError(f"metadata_fields must be a list of names, got {fields!r}")
    return ChunkingStrategy(**cast("dict[str, Any]", merged), metadata_fields=tuple(fields))
