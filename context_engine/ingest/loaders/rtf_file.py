"""Rich Text files: `.rtf`.

Read: paragraphs, headings by outline level or style, lists with the marks saved with them, tables as pipe tables, text
boxes, footnotes and comments below their paragraph, page heads and feet once each below the title, the shown text of
fields and links; tracked changes as accepted, or as `tracked_changes` says. Fields: title and author. Reported, not
read: hidden text, embedded objects. Not read: pictures, field codes. Nothing in the file is run.
"""

from __future__ import annotations

from collections.abc import Iterator

from context_engine.core.models import NoticeCode
from context_engine.ingest.header import header_fields
from context_engine.ingest.loaded_document import LoadedDocument, Skipped, file_notice, without_text
from context_engine.ingest.loaders.docx_document import hidden_words, is_page_number
from context_engine.ingest.loaders.markdown import MarkdownBlock, joined
from context_engine.ingest.loaders.properties import labelled, real_properties
from context_engine.ingest.loaders.rtf_text import RtfReader
from context_engine.ingest.loaders.source_file import SourceFile


def load_rtf(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
    """Yield the document of a Rich Text file."""
    data = file.read()
    reader = RtfReader(data, file.settings.tracked_changes)
    blocks = reader.blocks()
    margins = list(dict.fromkeys(f"{place}: {text}" for place, text in reader.margins if not is_page_number(text)))
    first = 1 if blocks and blocks[0].text.startswith("# ") else 0
    text = joined([*blocks[:first], *map(MarkdownBlock, margins), *blocks[first:]]).encode("utf-16", "surrogatepass")
    whole = text.decode("utf-16", "replace")  # two halves of a character that stood apart are one again
    objects = f"embedded objects are not read: {reader.objects}"
    unread = [file_notice(NoticeCode.EMBEDDED_NOT_READ, objects)] if reader.objects else []
    notices = (*hidden_words(reader.hidden), *unread)
    if not whole.strip():
        yield without_text(file.name, notices, pictures=b"\\pict" in data or b"\\object" in data)
        return
    header = {**header_fields("\n".join(label for one in margins for label in labelled(one))), **header_fields(whole)}
    fields = real_properties({name: said.strip() for name, said in reader.fields.items()})
    fields |= {"title": reader.title} if reader.title else {}
    yield LoadedDocument(path=file.name, text=whole, fields=fields, header=header, notices=notices, properties=True)
