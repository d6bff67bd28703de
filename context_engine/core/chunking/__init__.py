"""Cutting of documents by their type; pure functions on text.

The metadata of a chunk holds `source_file`, the front matter of its document (for a record: the fields in the piece,
the record's identifiers, and the fields that the manifest lists under `fields`), and these keys:

=====================  ==============================================================================================
key                    value
=====================  ==============================================================================================
token_count            tokens of the content, by the counter used for cutting
content_sha256         SHA-256 of the content
previous_chunk_id      id of the previous chunk in the document; not in the first
next_chunk_id          id of the next chunk; not in the last
section_title          innermost title above the text, without its number: "New products" for "4.1 New products"
heading_only           true if the piece has headings but no text below them; else omitted
defines                list of the terms that the content defines, as written; omitted if none
page, page_end         first page (or slide) of the content, and the last one if different
line                   line of a text, CSV or JSON Lines file that the content begins on
sheet, row             sheet of a workbook, and the row of a record
reference              citation of a clause in a numbered notice: "637(4.1)"
=====================  ==============================================================================================

and the fields that the strategy lists, if known: `section_number` and `version`, `date`; `jurisdiction`,
`regulator`, `id`; `template_id`; `entity_id`, `fetched_at`; the profile `funnel` lists `source_file`, `section` (the
number), `heading` (with its number), `chunk_index` (from 0) and `created_at`. Section number, heading path, position
and character span are also fields of the chunk itself. BOOKKEEPING_KEYS are the keys that are not searched as words.
"""
