"""Rich Text files: `.rtf`.

Read: paragraphs, headings by outline level or style, lists with the marks saved with them, tables as pipe tables, text
boxes, footnotes and comments below their paragraph, page headers and footers once each below the title, the results of
fields, links with their targets; struck words as `~~struck~~`, raised and lowered ones as in 10⁶ and CO₂; tracked
changes as accepted, or as `tracked_changes` says. Fields: title and author. Reported, not read: hidden text, embedded
objects. Not read: pictures, field codes. Nothing in the file is run.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from context_engine.core.models import NoticeCode
from context_engine.ingest.header import header_fields, labelled, real_properties
from context_engine.ingest.loaded_document import LoadedDocument, Skipped, file_notice, without_text
from context_engine.ingest.loaders.docx_file import hidden_words
from context_engine.ingest.loaders.docx_text import Changes
from context_engine.ingest.loaders.markdown import (
    HYPERLINK,
    LINK_CLOSE,
    LINK_OPEN,
    MarkdownBlock,
    heading,
    joined,
    one_line,
    unlinked,
)
from context_engine.ingest.loaders.ooxml import is_page_number
from context_engine.ingest.loaders.rtf_flow import (
    ASIDE,
    CHARS,
    CHARSETS,
    FIELDS,
    FORMULA,
    GONE,
    GROUP_CLOSE,
    GROUP_OPEN,
    HEIGHTS,
    INLINE,
    SIGNS,
    TOKEN,
    GroupState,
    RtfColours,
    RtfFlow,
    plain_block,
)
from context_engine.ingest.loaders.run_marks import marked
from context_engine.ingest.loaders.source_file import SourceFile

_HEADING: Final = re.compile(r"(?i)heading ([1-9])")
_MOST_DEPTH: Final = 10_000
_TINY: Final = 3  # half points


def load_rtf(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
    """Yield the document of a Rich Text file."""
    data = file.read()
    reader = RtfReader(data, file.settings.tracked_changes)
    blocks = reader.blocks()
    margins = list(dict.fromkeys(f"{place}: {text}" for place, text in reader.margins if not is_page_number(text)))
    first = 1 if blocks and blocks[0].text.startswith("# ") else 0
    text = joined([*blocks[:first], *map(MarkdownBlock, margins), *blocks[first:]]).encode("utf-16", "surrogatepass")
    markdown = text.decode("utf-16", "replace")  # joins separated surrogate halves
    objects = f"embedded objects are not read: {reader.objects}"
    unread = [file_notice(NoticeCode.EMBEDDED_NOT_READ, objects)] if reader.objects else []
    notices = (*hidden_words(reader.hidden), *unread)
    if not markdown.strip():
        yield without_text(file.name, notices, pictures=b"\\pict" in data or b"\\object" in data)
        return
    header = {
        **header_fields("\n".join(label for margin in margins for label in labelled(margin))),
        **header_fields(markdown),
    }
    fields = real_properties({name: value.strip() for name, value in reader.fields.items()})
    fields |= {"title": reader.title} if reader.title else {}
    yield LoadedDocument(path=file.name, text=markdown, fields=fields, header=header, notices=notices, properties=True)


class RtfReader:
    """Reads one file.

    Attributes:
        margins: page headers and footers in file order.
        title: the paragraph in the style "Title", or "".
        fields: title, author.
        hidden: number of hidden words.
        objects: number of embedded objects.
    """

    def __init__(self, data: bytes, changes: Changes) -> None:
        self._data = data
        self._changes = changes
        self._codepage = "cp1252"
        self._fonts: dict[int, str] = {}
        self._colours = RtfColours()
        self._styles: dict[int, str] = {}
        self._flows = [RtfFlow()]
        self._notes = 0
        self._bytes = bytearray()
        self._state = GroupState()
        self._instruction = ""  # of a field
        self.margins: list[tuple[str, str]] = []
        self.fields: dict[str, str] = {}
        self.title = ""
        self.hidden = 0
        self.objects = 0

    def blocks(self) -> list[MarkdownBlock]:
        stack: list[tuple[GroupState, bool]] = []
        position, skip, starred = 0, 0, False
        while match := TOKEN.match(self._data, position):
            position = match.end()
            length, word, argument, code, sign, brace, text = match.groups()
            if code is None and text is None:
                self._decode()
            if brace == b"{":
                if len(stack) >= _MOST_DEPTH:
                    raise ValueError("groups nested too deep")
                stack.append((self._state, False))
                self._state = replace(self._state)
                starred, skip = False, 0
            elif brace == b"}":
                if not stack:
                    break
                skip = 0
                before, opened = stack.pop()
                if self._state.link and not before.link:
                    self._flows[-1].text.append(LINK_CLOSE)
                if self._state.formula > before.formula:
                    self._flows[-1].text.append(GROUP_CLOSE)
                self._close(opened)
                self._state = before
                if not stack:
                    break
            elif length is not None:
                position += int(length)
            elif word == b"u" and argument:
                self._put(_character(int(argument)))
                skip = self._state.skip
            elif word is not None:
                opened = self._word(word, argument, starred=starred)
                if opened and stack:
                    stack[-1] = (stack[-1][0], True)
                starred = False
            elif sign == b"*":
                starred = self._data[max(0, match.start() - 8) : match.start()].rstrip().endswith(b"{")
            elif sign is not None:
                self._put(SIGNS.get(sign, "")) if sign not in b"\r\n" else self._paragraph()
            elif code is not None:
                if skip:
                    skip -= 1
                else:
                    self._bytes += bytes.fromhex(code.decode())
            elif text is not None:
                self._bytes += text[skip:]
                skip = max(0, skip - len(text))
        self._decode()
        while len(self._flows) > 1:
            self._close(True)
        self._paragraph()
        self._flows[0].end_table()
        return self._flows[0].blocks

    def _word(self, word: bytes, argument: bytes | None, *, starred: bool) -> bool:
        """Apply a control word; return whether it opens a text outside the body."""
        number = int(argument) if argument else None
        state = self._state
        if state.place == "gone":
            return False
        if word in ASIDE:
            if word in (b"footnote", b"annotation"):
                self._refer(word)
            state.place = ASIDE[word]
            self._flows.append(RtfFlow())
            return True
        if word in FIELDS and state.place == "gone info":
            state.place = word.decode()
        elif word in (b"fonttbl", b"colortbl", b"stylesheet", b"info", b"nesttableprops"):
            state.place = f"gone {word.decode()}"
        elif word == b"fldinst":
            state.place, self._instruction = "gone instruction", ""
        elif word == b"fldrslt" and (link := HYPERLINK.match(self._instruction)):
            self._instruction, state.link = "", True
            self._flows[-1].text.append(LINK_OPEN)
            self._flows[-1].targets.append(link[1])
        elif word in GONE or (starred and word not in INLINE and word not in CHARS):
            self.objects += word == b"objdata"
            state.place = "gone"
        elif word in (b"listtext", b"pntext"):
            state.label = True
        elif word in CHARS:
            self._put(CHARS[word])
        elif word in FORMULA:
            self._flows[-1].text.append(f"{FORMULA[word]}{GROUP_OPEN}")
            state.formula += 1
        else:
            self._set(word, number)
        return False

    def _set(self, word: bytes, number: int | None) -> None:
        state, flow = self._state, self._flows[-1]
        on = number != 0
        if word in (b"par", b"sect"):
            self._paragraph()
        elif word in (b"cell", b"nestcell"):
            self._cell(nested=word == b"nestcell")
        elif word in (b"row", b"nestrow"):
            flow.end_row(nested=word == b"nestrow")
        elif word in (b"trowd", b"clvmrg", b"clmrg", b"cellx") and state.place == "gone nesttableprops":
            return
        elif word in (b"trowd", b"clvmrg", b"clmrg", b"cellx"):
            flow.row.define(word, number)
        elif word == b"pard" and not state.label:
            flow.in_table, flow.level, flow.style = False, None, 0
            flow.shaded = False
        elif word == b"plain":
            state.deleted = state.inserted = state.struck = False
            state.height, state.hidden, state.size, state.colour, state.ground = b"", False, None, 0, 0
        elif word == b"intbl":
            flow.in_table = True
        elif word == b"outlinelevel" and number is not None and number < 9:
            flow.level = number
        elif word == b"s" and number is not None:
            flow.style = number
        elif word == b"fs":
            state.size = number
        elif word == b"cf":
            state.colour = number or 0
        elif word in (b"cb", b"highlight", b"chcbpat"):
            state.ground = number or 0
        elif word == b"v":
            state.hidden = on
        elif word == b"cbpat":
            flow.shaded = self._colours.is_ground(number)
        elif word == b"clcbpat":
            flow.row.shaded |= self._colours.is_ground(number)
        elif state.place == "gone colortbl":
            self._colours.set(word, number)
        elif word == b"deleted":
            state.deleted = on
        elif word == b"revised":
            state.inserted = on
        elif word in (b"strike", b"striked"):
            state.struck = on
        elif word in HEIGHTS:
            state.height = HEIGHTS[word] if on else b""
        elif word == b"uc" and number is not None:
            state.skip = max(0, number)
        elif word == b"f" and number is not None:
            state.font = number
        elif word == b"fcharset" and number is not None and state.place == "gone fonttbl":
            self._fonts[state.font] = CHARSETS.get(number, self._codepage)
        elif word in (b"ansicpg", b"mac", b"pc", b"pca"):
            name = {b"mac": "mac_roman", b"pc": "cp437", b"pca": "cp850"}.get(word, f"cp{number}")
            self._codepage = name if _known(name) else self._codepage

    def _decode(self) -> None:
        if not self._bytes:
            return
        encoding = self._fonts.get(self._state.font, self._codepage)
        if encoding == "cp1252" and self._codepage != "cp1252":
            encoding = self._codepage  # a font's Western charset is only the default
        text = bytes(self._bytes).decode(encoding, "replace")
        self._bytes.clear()
        self._put(text)

    def _put(self, text: str) -> None:
        state = self._state
        if state.place == "gone stylesheet":
            style = self._flows[-1].style
            self._styles[style] = self._styles.get(style, "") + text
        elif state.place == "gone instruction":
            self._instruction += text
        elif state.place == "gone colortbl":
            self._colours.end(text)
        elif state.place.startswith("gone"):
            return
        elif state.place in FIELDS.values():
            self.fields[state.place] = self.fields.get(state.place, "") + text
        elif self._is_unseen():
            self.hidden += len(text.split())
        else:
            raised, lowered = state.height == b"super", state.height == b"sub"
            text = marked(text, struck=state.struck, raised=raised, lowered=lowered)
            self._flows[-1].text.append(self._changed(text))

    def _is_unseen(self) -> bool:
        state = self._state
        if state.hidden or (state.size is not None and state.size <= _TINY):
            return True
        if state.colour not in self._colours.pale or self._colours.is_ground(state.ground):
            return False
        flow = self._flows[-1]
        return not flow.shaded and not (flow.row.shaded and flow.in_table)

    def _changed(self, text: str) -> str:
        state = self._state
        if self._changes == "both" and text.strip() and (state.deleted or state.inserted):
            return f"[{'deleted' if state.deleted else 'inserted'}: {text}]"
        gone = (state.deleted and self._changes == "accept") or (state.inserted and self._changes == "reject")
        return "" if gone else text

    def _refer(self, word: bytes) -> None:
        if word == b"footnote":
            self._notes += 1
            self._put(f"[^{self._notes}]")

    def _close(self, opened: bool) -> None:
        """End a group; a text outside the body becomes a block below the paragraph."""
        place = self._state.place
        if place.startswith("gone "):
            self._flows[-1].style, self._flows[-1].level = 0, None
        if not opened:
            return
        number = self._notes
        self._paragraph()
        flow = self._flows.pop()
        flow.end_table()
        text = one_line(" ".join(block.text for block in flow.blocks))
        around = self._flows[-1]
        if place.startswith("Page "):
            self.margins.append((place, text))
        elif place == "box":
            around.beside += flow.blocks
        elif text:
            around.beside.append(MarkdownBlock(f"[^{number}]: {text}" if place == "note" else f"[Comment: {text}]"))

    def _paragraph(self) -> None:
        self._decode()
        flow = self._flows[-1]
        if flow.in_table:
            flow.text.append("\n")
            return
        flow.end_table()
        text = flow.take().strip()
        if text:
            flow.blocks.append(self._block(text, flow))
        flow.blocks += flow.beside
        flow.beside = []

    def _block(self, text: str, flow: RtfFlow) -> MarkdownBlock:
        name = self._styles.get(flow.style, "").strip("; ").lower() if flow.style else ""
        if name == "title" and not self.title:
            self.title = unlinked(one_line(text))
            return heading(1, text)
        named = _HEADING.match(name)
        level = flow.level if flow.level is not None else int(named[1]) - 1 if named else None
        return plain_block(text) if level is None else heading(level + 1 + bool(self.title), text)

    def _cell(self, *, nested: bool) -> None:
        flow = self._flows[-1]
        (flow.nested if nested else flow.row.cells).append(flow.take())


def _character(code: int) -> str:
    code = code + 0x10000 if code < 0 else code
    return chr(code) if code < 0x110000 else "\ufffd"


def _known(name: str) -> bool:
    try:
        codecs.lookup(name)
    except LookupError:
        return False
    return True
