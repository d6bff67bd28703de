"""Documents cut by their type; pure functions on text.

A chunk made of a piece carries in its metadata, beside `source_file`, the front matter of its document or, of a record,
the fields in the piece, the record's identifiers, and the fields that the manifest names under `fields`:

=====================  ==============================================================================================
key                    value
=====================  ==============================================================================================
token_count            tokens of the content, by the counter it was cut with
content_sha256         SHA-256 of the content
previous_chunk_id      id of the chunk before it in the document; the first has none
next_chunk_id          id of the chunk after it; the last has none
section_title          innermost title above the text, without its number: "New products" for "4.1 New products"
heading_only           true if there is no text below its heading or headings; else left out
defines                list of the terms that the content defines, as it writes them; left out if none
page, page_end         page (or slide) that the content begins on, and the one it ends on where that is another
line                   line of a text, CSV or JSON Lines file that the content begins on
sheet, row             sheet of a workbook, and the row of a record
reference              citation of a clause of a numbered notice: "637(4.1)"
=====================  ==============================================================================================

and the fields that the strategy names, if known: `section_number` and `version`, `date`; `jurisdiction`,
`regulator`, `id`; `template_id`; `entity_id`, `fetched_at`; the profile `funnel` names `source_file`, `section` (the
number), `heading` (with its number), `chunk_index` (from 0) and `created_at`. Section number, heading path, position
and character span also stand on the chunk itself. BOOKKEEPING_KEYS are those that no search should read as words.
"""

from context_engine.core.chunking.chunk_line import (
    LINE_FORM,
    ChunkLine,
    escaped,
    line_of,
    read_line,
    restored,
    with_line,
)
from context_engine.core.chunking.contents import ContentsTable, contents_of, without_contents
from context_engine.core.chunking.cut import BOOKKEEPING_KEYS, CHUNKER_VERSION, cut, fixed_pieces, section_pieces
from context_engine.core.chunking.definitions import defined_terms, is_glossary
from context_engine.core.chunking.fields import field_pieces, field_spans, record_text
from context_engine.core.chunking.heading import Heading
from context_engine.core.chunking.outline import (
    RECORD,
    OutlineSection,
    QuestionAnswer,
    StructureKind,
    TextStructure,
    headings,
    outline,
    questions_of,
    section_title,
    structure_of,
)
from context_engine.core.chunking.pack import Count, Piece
from context_engine.core.chunking.strategy import (
    DEFAULT_STRATEGIES,
    PROFILES,
    ChunkingStrategy,
    get_profile,
    get_strategy,
    read_strategies,
    strategy_for,
)

__all__ = [
    "BOOKKEEPING_KEYS",
    "CHUNKER_VERSION",
    "DEFAULT_STRATEGIES",
    "LINE_FORM",
    "PROFILES",
    "RECORD",
    "ChunkLine",
    "ChunkingStrategy",
    "ContentsTable",
    "Count",
    "Heading",
    "OutlineSection",
    "Piece",
    "QuestionAnswer",
    "StructureKind",
    "TextStructure",
    "contents_of",
    "cut",
    "defined_terms",
    "escaped",
    "field_pieces",
    "field_spans",
    "fixed_pieces",
    "get_profile",
    "get_strategy",
    "headings",
    "is_glossary",
    "line_of",
    "outline",
    "questions_of",
    "read_line",
    "read_strategies",
    "record_text",
    "restored",
    "section_pieces",
    "section_title",
    "strategy_for",
    "structure_of",
    "with_line",
    "without_contents",
]
