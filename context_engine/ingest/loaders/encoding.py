"""Find a text's encoding: a byte order mark, else UTF-8, else UTF-16 by its NUL bytes, else a guess that is reported.

A guess needs `charset-normalizer` (extra `documents`), which takes curly quotes for box-drawing marks. Western European
text is therefore recognised first: its few non-ASCII bytes are letters and typographic marks of Windows-1252.
"""

from __future__ import annotations

import codecs
import io
import re
from itertools import pairwise
from typing import Final, NamedTuple, TextIO

from context_engine.core.models import Notice, NoticeCode
from context_engine.errors import MissingExtra
from context_engine.ingest.loaded_document import Skipped, file_notice
from context_engine.ingest.loaders.source_file import SourceFile

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MEANT: Final = {
    "iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949",
}  # fmt: skip
_BLOCK: Final = 1 << 20
_SAMPLE: Final = 1 << 16
_WESTERN: Final = frozenset(
    "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜÝßàáâãäåæçèéêëìíîïñòóôõöøùúûüýÿŒœŠšŽž€£¥§©®°±²«»·–—‘’‚“”„•…™¡¿½¼%\u00a0"
)
_CENTRAL: Final = frozenset(
    "ÁÂÄÇÉËÍÎÓÔÖÚÜÝßáâäçéëíîóôöúüýĂăĄąĆćČčĎďĐđĘęĚěĹĺĽľŁłŃńŇňŐőŔŕŘřŚśŞşŠšŢţŤťŮůŰűŹźŻżŽž€§–—‘’‚“”„•…\u00a0"
)
_ODD: Final = re.compile(r"[Øø]|[^\W\d][³¹¿¾¼£¥]|[³¹¿¾¼£¥][^\W\d]")
_LATIN: Final = re.compile(r"iso8859_(?:[1-4]|1[03456])$|latin|cp125[027]$|cp(?:437|85[0278])$|mac_|hp_roman")
_NORDIC: Final = re.compile("[ÆæÅå]")
_MOST_SHOWN: Final = 40
_MOST_WESTERN: Final = 0.2  # share of non-ASCII bytes; in a text of another script nearly all are
_SPARSE: Final = 0.02
_LEAST: Final = 20  # fewer bytes give no reliable guess
_FEW: Final = 8
_MUCH: Final = 16
_RARE: Final = 1_000  # a text may hold _FEW NUL bytes and one more in each 1,000


class Decoded(NamedTuple):
    """A text whose line ends are all "\\n", with the notices about its encoding."""

    text: str
    notices: tuple[Notice, ...]


class _Encoding(NamedTuple):
    name: str
    notices: tuple[Notice, ...] = ()


def meant(label: str) -> str:
    """Return the encoding that a label means in practice: Windows-1252 for iso-8859-1 and ASCII (WHATWG Encoding).

    >>> meant("ISO-8859-1"), meant("gb2312"), meant("utf-8"), meant("x-unknown")
    ('cp1252', 'gb18030', 'utf-8', 'x-unknown')
    """
    try:
        return _MEANT.get(codecs.lookup(label).name, label)
    except LookupError:
        return label


def decoded(data: bytes, name: str, *, declared: str | None = None) -> Decoded | Skipped:
    """Return the text of a file.

    Args:
        declared: the encoding that the file names, tried after UTF-8 and before a guess.
    """
    declared = meant(declared) if declared and _decodes(data, meant(declared)) else declared
    encoding = _marked(data) or _encoding(data, name, declared)
    if isinstance(encoding, Skipped):
        return encoding
    try:
        text = data.decode(encoding.name).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        return Skipped(name, f"is not {encoding.name} all through (byte {error.start:,}): save it as UTF-8")
    if "\x00" in text:
        return _nul(name, text[: text.index("\x00")].count("\n") + 1)
    return Decoded(text.replace("\r\n", "\n").replace("\r", "\n"), encoding.notices)


def open_text(file: SourceFile) -> tuple[TextIO, tuple[Notice, ...]] | Skipped:
    """Open a file as text with "\\n" as line end; the caller closes it.

    The file is read through once to find its encoding; memory does not grow with it.
    """
    encoding = encoding_of(file)
    if isinstance(encoding, Skipped):
        return encoding
    return io.TextIOWrapper(file.open(), encoding=encoding.name, newline=None), encoding.notices


def encoding_of(file: SourceFile) -> _Encoding | Skipped:
    """Return an encoding in which the whole file can be read."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    lines = 0
    with file.open() as stream:
        block = stream.read(_BLOCK)
        known = _marked(block) or _utf16(block)
        if known:
            return known
        while block:
            if block.count(0) > _FEW + len(block) // _RARE:
                return _nul(file.name, lines + block[: block.index(b"\x00")].count(b"\n") + 1)
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                return _guessed(_around(block, error.start), file.name, lines + _line(block, error))
            lines += block.count(b"\n")
            block = stream.read(_BLOCK)
    return _Encoding("utf-8")


def _marked(data: bytes) -> _Encoding | None:
    return next((_Encoding(name) for mark, name in _MARKS if data.startswith(mark)), None)


def _utf16(data: bytes) -> _Encoding | None:
    """Recognise UTF-16 without a byte order mark: every other byte of its ASCII characters is NUL, few of the rest."""
    sample = data[: _SAMPLE - _SAMPLE % 2]
    if b"\x00" not in sample:
        return None
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    for name, zeros, others in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if zeros * 2 > len(sample) // 2 and others * _MUCH < zeros and "\x00" not in sample.decode(name, "replace"):
            return _Encoding(name)
    return None


def _encoding(data: bytes, name: str, declared: str | None) -> _Encoding | Skipped:
    if b"\x00" in data:
        return _utf16(data) or _nul(name, data[: data.index(b"\x00")].count(b"\n") + 1)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        if declared and _decodes(data, declared):
            return _Encoding(declared)
        return _guessed(data if len(data) <= _BLOCK else _around(data, error.start), name, _line(data, error))
    return _Encoding("utf-8")


def _guessed(sample: bytes, name: str, line: int) -> _Encoding | Skipped:
    encoding = None if len(sample) < _LEAST else "cp1252" if _western(sample) else _detected(sample)
    if isinstance(encoding, MissingExtra):
        return Skipped(name, f"is not UTF-8: save it as UTF-8. {encoding}", line)
    if encoding is None:
        return Skipped(name, "is not UTF-8, and its encoding is not known: save it as UTF-8", line)
    guess = f"is not UTF-8 (line {line}): read as {encoding}, which is a guess{_second(sample, encoding)}"
    return _Encoding(encoding, (file_notice(NoticeCode.ENCODING_GUESSED, guess, encoding=encoding, line=line),))


def _second(sample: bytes, encoding: str) -> str:
    """Return a clause that names the second candidate: a short Central European text can be read in two encodings."""
    if encoding != "cp1252" or not _decodes(sample, "cp1250"):
        return ""
    western, central = sample.decode("cp1252"), sample.decode("cp1250")
    if not _ODD.search(western) or _NORDIC.search(western) or not set(re.sub(r"[\x00-\x7f]", "", central)) <= _CENTRAL:
        return ""
    line = next(other for own, other in zip(western.splitlines(), central.splitlines()) if own != other)
    return f"; in cp1250 it would read {line.strip()[:_MOST_SHOWN]!r}: save it as UTF-8 to be sure"


def _western(sample: bytes) -> bool:
    high = bytes(byte for byte in sample if byte > 127)
    return (
        _decodes(sample, "cp1252")
        and len(high) <= _MOST_WESTERN * len(sample)
        and set(high.decode("cp1252")) <= _WESTERN
        and not (len(high) > _SPARSE * len(sample) and _pairs(sample) > len(high) // 2)
    )


def _pairs(sample: bytes) -> int:
    """Count the non-ASCII bytes that follow another: two-byte scripts consist of such pairs."""
    return sum(1 for first, second in pairwise(sample) if first > 127 and second > 127)


def _detected(sample: bytes) -> str | MissingExtra | None:
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return MissingExtra("guessing the encoding", "documents")
    best = from_bytes(sample).best()
    if best is None:
        return None
    return "cp1250" if _LATIN.match(best.encoding) and _central(sample) else best.encoding


def _central(sample: bytes) -> bool:
    """Whether a text may be Central European: few texts are long enough to tell its encodings apart."""
    high = bytes(byte for byte in sample if byte > 127)
    few = len(high) <= _MOST_WESTERN * len(sample)
    return few and _decodes(sample, "cp1250") and set(high.decode("cp1250")) <= _CENTRAL


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        return False
    return True


def _around(data: bytes, place: int) -> bytes:
    """Return the lines around a byte, so that no character is cut at the ends."""
    start = data.rfind(b"\n", 0, max(0, place - _SAMPLE // 2)) + 1
    end = data.find(b"\n", min(len(data), place + _SAMPLE // 2))
    return data[start : end if end > 0 else len(data)]


def _line(data: bytes, error: UnicodeDecodeError) -> int:
    return data[: error.start].count(b"\n") + 1


def _nul(name: str, line: int) -> Skipped:
    return Skipped(name, "holds NUL bytes, so it is not text: if it is one, save it as UTF-8", line)
