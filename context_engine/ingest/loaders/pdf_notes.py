"""The text of a PDF page's form fields and annotations."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any, Final, NamedTuple

_MOST_NOTES: Final = 10_000  # of a page
_MOST_OBJECTS: Final = 100  # examined of an annotation
_MOST_OPTIONS: Final = 1_000
_MOST_TEXT: Final = 1_000_000  # UTF-16 units of one value
_MOST_ADDRESS: Final = 600  # bytes
_HIDDEN: Final = 1 << 1 | 1 << 5  # flags of an annotation: hidden, no view
_PASSWORD: Final = 1 << 13  # flag of a text field
_SET: Final = ("yes", "on", "true", "1", "x")  # values of a box that only mean that it is checked
_KINDS: Final = {
    1: "Note", 3: "Text", 9: "Highlight", 10: "Underline", 11: "Underline", 12: "Struck out", 13: "Stamp",
    14: "Insertion", 17: "Attachment", 28: "Redaction",
}  # fmt: skip
_LINK, _STRIKE_OUT, _POPUP, _WIDGET = 2, 12, 16, 20  # FPDF_ANNOT_…
_PUSH, _CHECK_BOX, _RADIO, _COMBO, _LIST, _TEXT = range(1, 7)  # FPDF_FORMFIELD_…
_COUNTED: Final = re.compile(r"\[\d+\]")
Form = Any
"""PDFium's handle of a document's form."""


@contextmanager
def opened_form(document: Any) -> Iterator[Form | None]:
    """Open a document's form, None if it has none; its scripts are not run."""
    from pypdfium2 import raw

    if raw.FPDF_GetFormType(document.raw) == raw.FORMTYPE_NONE:
        yield None
        return
    config = raw.FPDF_FORMFILLINFO(version=1)
    form = raw.FPDFDOC_InitFormFillEnvironment(document.raw, ctypes.byref(config))
    try:
        yield form or None
    finally:
        if form:
            raw.FPDFDOC_ExitFormFillEnvironment(form)


class PageLink(NamedTuple):
    """Words of a page that link to an address; `height` of their middle, in points above the page's lower edge."""

    words: str
    target: str
    height: float


class Notes(NamedTuple):
    """The texts of a page's fields and annotations.

    Attributes:
        shown, hidden: with their labels.
        drawn: whether a visible one only draws its text.
        struck: words of the page that annotations strike out.
        links: words of the page that link to an address.
    """

    shown: Sequence[str] = ()
    hidden: Sequence[str] = ()
    drawn: bool = False
    struck: Sequence[str] = ()
    links: Sequence[PageLink] = ()


def notes_of(page: Any, text_page: Any, text: str, form: Form | None) -> Notes:
    """Return the texts of a page's fields and annotations, except those that the page's `text` prints there."""
    from pypdfium2 import raw

    count = min(raw.FPDFPage_GetAnnotCount(page.raw), _MOST_NOTES)
    if count < 1:
        return Notes()
    states = [_state_of(page, number) for number in range(count)] if form else [""] * count
    if form:  # needed to tell which boxes are checked; it sets boxes without an appearance to Off
        raw.FORM_OnAfterLoadPage(page.raw, form)
    try:
        return _read(page, text_page, states, _bare(text), form)
    finally:
        if form:
            raw.FORM_OnBeforeClosePage(page.raw, form)


def _state_of(page: Any, number: int) -> str:
    """Return the state of a box or button as stored in the file."""
    from pypdfium2 import raw

    annotation = raw.FPDFPage_GetAnnot(page.raw, number)
    if not annotation:
        return ""
    try:
        state = _string(raw.FPDFAnnot_GetStringValue, annotation, b"AS")
        return state or _string(raw.FPDFAnnot_GetStringValue, annotation, b"V")
    finally:
        raw.FPDFPage_CloseAnnot(annotation)


def _read(page: Any, text_page: Any, states: Sequence[str], text: str, form: Form | None) -> Notes:
    from pypdfium2 import raw

    drawn = False
    shown: dict[str, None] = {}
    hidden: dict[str, None] = {}
    struck: list[str] = []
    links: list[PageLink] = []
    for number, state in enumerate(states):
        annotation = raw.FPDFPage_GetAnnot(page.raw, number)
        if not annotation:
            continue
        try:
            kind = raw.FPDFAnnot_GetSubtype(annotation)
            if kind == _LINK:
                links += _links(page, annotation, text_page)
                continue
            note = _note(annotation, form, state)
            bare = _bare(note.text) if note else ""
            unseen = raw.FPDFAnnot_GetFlags(annotation) & _HIDDEN
            if kind == _STRIKE_OUT and not unseen:
                struck += _words_under(annotation, text_page)
            if note is None:
                drawn = drawn or (not unseen and _draws_text(annotation, form))
            elif not (bare and bare in text and _is_printed_there(annotation, text_page, bare)):
                (hidden if unseen else shown)[note.labelled] = None
        finally:
            raw.FPDFPage_CloseAnnot(annotation)
    return Notes(list(shown), [note for note in hidden if note not in shown], drawn, struck, links)


def _links(page: Any, annotation: Any, text_page: Any) -> Iterator[PageLink]:
    """Yield the words under a link to an address."""
    from pypdfium2 import raw

    action = raw.FPDFLink_GetAction(raw.FPDFAnnot_GetLink(annotation))
    if not action or raw.FPDFAction_GetType(action) != raw.PDFACTION_URI:
        return
    buffer = ctypes.create_string_buffer(_MOST_ADDRESS)
    length = raw.FPDFAction_GetURIPath(page.pdf.raw, action, buffer, _MOST_ADDRESS)
    box = raw.FS_RECTF()
    if not 1 < length <= _MOST_ADDRESS or not raw.FPDFAnnot_GetRect(annotation, ctypes.byref(box)):
        return
    low, high = sorted((box.bottom, box.top))
    left, right = sorted((box.left, box.right))
    words = " ".join(text_page.get_text_bounded(left, low, right, high).split())
    if words:
        yield PageLink(words, buffer.value.decode("utf-8", "replace"), (low + high) / 2)


def _words_under(annotation: Any, text_page: Any) -> Iterator[str]:
    """Yield the words under each line of an annotation that marks text."""
    from pypdfium2 import raw

    quad = raw.FS_QUADPOINTSF()
    for number in range(min(raw.FPDFAnnot_CountAttachmentPoints(annotation), _MOST_OBJECTS)):
        if raw.FPDFAnnot_GetAttachmentPoints(annotation, number, ctypes.byref(quad)):
            across, along = (quad.x1, quad.x2, quad.x3, quad.x4), (quad.y1, quad.y2, quad.y3, quad.y4)
            words = " ".join(text_page.get_text_bounded(min(across), min(along), max(across), max(along)).split())
            if words:
                yield words


def _draws_text(annotation: Any, form: Form | None) -> bool:
    """Whether an annotation may draw text; the label of a button does not count."""
    from pypdfium2 import raw

    kind = raw.FPDFAnnot_GetSubtype(annotation)
    if kind in (_LINK, _POPUP) or (kind == _WIDGET and form and _is_mute(annotation, form)):
        return False
    objects = (raw.FPDFAnnot_GetObject(annotation, number) for number in range(_MOST_OBJECTS))
    kinds = (raw.FPDF_PAGEOBJ_TEXT, raw.FPDF_PAGEOBJ_FORM)
    return any(raw.FPDFPageObj_GetType(item) in kinds for item in takewhile(bool, objects))


def _is_mute(annotation: Any, form: Form) -> bool:
    from pypdfium2 import raw

    secret = raw.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD
    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    return kind in (_PUSH, _CHECK_BOX, _RADIO) or (kind == _TEXT and bool(secret))


class _Note(NamedTuple):
    """An annotation with its label; the page may print its `text` in the same place."""

    labelled: str
    text: str


def _note(annotation: Any, form: Form | None, state: str) -> _Note | None:
    from pypdfium2 import raw

    kind = raw.FPDFAnnot_GetSubtype(annotation)
    if kind == _WIDGET:
        return _field(annotation, form, state) if form else None
    text = "" if kind in (_LINK, _POPUP) else _string(raw.FPDFAnnot_GetStringValue, annotation, b"Contents")
    return _Note(f"[{_KINDS.get(kind, 'Note')}: {text}]", text) if text else None


def _field(annotation: Any, form: Form, state: str) -> _Note | None:
    from pypdfium2 import raw

    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    name = _string(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation).rstrip(": ")
    name = name or _plain_name(_string(raw.FPDFAnnot_GetFormFieldName, form, annotation))
    if kind in (_CHECK_BOX, _RADIO):
        text = _checked(annotation, form, kind, state)
        return _Note(f"{name}: {text}", "") if text else None
    value = ""
    if kind in (_COMBO, _LIST):
        value = ", ".join(_chosen(annotation, form)) or _string(raw.FPDFAnnot_GetFormFieldValue, form, annotation)
    elif kind == _TEXT and not raw.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD:
        value = _string(raw.FPDFAnnot_GetFormFieldValue, form, annotation)
    return _Note(f"{name}: {value}", value) if value else None


def _plain_name(name: str) -> str:
    """Return a field's name; of a generated name ("form[0].#subform[0].Borrower[0]") only the last part."""
    return _COUNTED.sub("", name.rsplit(".", 1)[-1]) or "Field" if _COUNTED.search(name) else name or "Field"


def _checked(annotation: Any, form: Form, kind: int, state: str) -> str:
    """Return the state of a box; of a group of boxes, the value of the checked one."""
    from pypdfium2 import raw

    known = raw.FPDFAnnot_IsChecked(form, annotation) == 1
    checked = known or state not in ("", "Off")
    value = (known and _string(raw.FPDFAnnot_GetFormFieldExportValue, form, annotation)) or state
    if kind == _RADIO or raw.FPDFAnnot_GetFormControlCount(form, annotation) > 1:
        return (value or "checked") if checked else ""
    if not checked:
        return "not checked"
    return "checked" if not value or value.lower() in _SET else f"checked ({value})"


def _chosen(annotation: Any, form: Form) -> Iterator[str]:
    from pypdfium2 import raw

    for number in range(min(raw.FPDFAnnot_GetOptionCount(form, annotation), _MOST_OPTIONS)):
        if raw.FPDFAnnot_IsOptionSelected(form, annotation, number):
            yield _string(raw.FPDFAnnot_GetOptionLabel, form, annotation, number)


def _is_printed_there(annotation: Any, text_page: Any, text: str) -> bool:
    """Whether the page prints a text (bare letters) in the place of an annotation."""
    from pypdfium2 import raw

    box = raw.FS_RECTF()
    if not raw.FPDFAnnot_GetRect(annotation, ctypes.byref(box)):
        return False
    low, high = sorted((box.bottom, box.top))
    left, right = sorted((box.left, box.right))
    printed = text_page.get_text_bounded(left - 1, low - 1, right + 1, high + 1)
    return text in _bare(printed)


def _bare(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def _string(read: Callable[..., int], *arguments: Any) -> str:
    """Return the UTF-16 text that a PDFium function writes into a buffer, on one line."""
    size = min(read(*arguments, None, 0), 2 * _MOST_TEXT)
    if size <= 2:
        return ""
    buffer = (ctypes.c_ushort * (size // 2 + 1))()
    read(*arguments, buffer, size)
    text = bytes(buffer)[: size - 2].decode("utf-16-le", "replace").split("\0", 1)[0]
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
