"""Cut documents by their type; pure functions on text.

The metadata of a chunk contain `source_file` and the front matter of its document. A chunk of a record has instead the
fields in the piece, the record's identifiers, and the fields that the manifest names under `fields`. Further keys are:

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
and character span also stand on the chunk itself. No search should read the values of BOOKKEEPING_KEYS as words.
"""
