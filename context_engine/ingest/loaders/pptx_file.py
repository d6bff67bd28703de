"""Presentations: `.pptx`. The number of a slide is its page.

Read, slide by slide in their order: the title as a heading, text boxes and shapes (grouped ones too), lists with
their levels, tables as pipe tables, charts and diagrams, comments, and the speaker's notes; a foot that stands on
every slide once. Fields: core properties a person wrote. Reported, not read: hidden slides, embedded files, what is
damaged or missing. Not read: what the layouts and masters say, the numbers of slides, pictures, sounds, animations,
links' targets. Refused: macros (`.pptm`, or a macro part inside), passwords, zip bombs, XML with a document type.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from typing import Final
from zipfile import ZipFile

from context_engine.core.models import Notice, NoticeCode
from context_engine.ingest.header import header_fields
from context_engine.ingest.loaded_document import LoadedDocument, Skipped, file_notice, without_text
from context_engine.ingest.loaders.archive import check_archive
from context_engine.ingest.loaders.docx_document import damaged
from context_engine.ingest.loaders.markdown import joined
from context_engine.ingest.loaders.ooxml import REL, OoxmlPackage
from context_engine.ingest.loaders.pptx_slide import P, comments_of, read_slide
from context_engine.ingest.loaders.properties import real_properties
from context_engine.ingest.loaders.source_file import SourceFile

_MOST_UNPACKED: Final = 1 << 30
_MOST_PART: Final = 64 << 20
_EMBEDDED: Final = ("package", "oleObject")


def load_pptx(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
    """Yield the document of a presentation."""
    with file.open() as stream:
        refused = check_archive(stream, "PPTX", _MOST_UNPACKED, _MOST_PART)
        if refused:
            yield Skipped(file.name, refused)
            return
        with ZipFile(stream) as archive:
            yield _loaded(OoxmlPackage(archive, "ppt/presentation.xml", "reading .pptx files"), file.name)


def _loaded(package: OoxmlPackage, name: str) -> LoadedDocument | Skipped:
    texts: list[str] = []
    pages: list[tuple[int, int]] = []
    unread: list[Notice] = []
    seen: set[str] = set()  # feet and dates, which stand on every slide
    length = 0
    for number, part in enumerate(_slides(package), 1):
        text = _slide(package, part, number, seen, unread)
        if text:
            pages.append((length, number))
            texts.append(text)
            length += len(text) + 2
    fields = real_properties(package.core_properties())
    notices = (*damaged(package.parts.problems), *unread)
    if not texts:
        return without_text(name, notices, pictures=package.has_objects)
    whole = "\n\n".join(texts)
    return LoadedDocument(
        path=name,
        text=whole,
        fields=fields,
        header=header_fields(whole),
        pages=tuple(pages),
        notices=notices,
        properties=True,
    )


def _slides(package: OoxmlPackage) -> Sequence[str]:
    """Return the parts of the slides in their order; those that the presentation lists, else all there are."""
    root = package.parts.root(package.main)
    listed = [] if root is None else [one.get(f"{REL}id") or "" for one in root.iter(f"{P}sldId")]
    relations = package.relations(package.main)
    parts = [relations[one].target for one in listed if one in relations]
    missing = [one for one in parts if one not in package.parts]
    package.parts.problems += [f"{one} is missing" for one in missing]
    return parts or [one for one in package.parts.names("ppt/slides/") if one.endswith(".xml")]


def _slide(package: OoxmlPackage, part: str, number: int, seen: set[str], unread: list[Notice]) -> str:
    root = package.parts.root(part) if part in package.parts else None
    if root is None:
        return ""
    if root.get("show") in ("0", "false"):
        title = read_slide(root, package, part, number, set())[0].text.lstrip("# ")
        unread.append(
            file_notice(NoticeCode.HIDDEN_LEFT_OUT, f"slide {number} is hidden and left out: {title}", count=1)
        )
        return ""
    blocks = read_slide(root, package, part, number, seen)
    blocks += comments_of(package, part)
    embedded = [posixpath.basename(one) for kind in _EMBEDDED for one in package.related(part, kind)]
    if embedded:
        left = f"slide {number}: embedded files are not read: {', '.join(embedded)}"
        unread.append(file_notice(NoticeCode.EMBEDDED_NOT_READ, left, names=embedded))
    return joined(blocks) if len(blocks) > 1 or not blocks[0].text.startswith(f"## Slide {number}") else ""
