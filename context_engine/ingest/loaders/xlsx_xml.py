"""XML of a workbook's parts by local names, whichever of the two namespaces (transitional, strict) it is written in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pyexpat import ExpatError, ParserCreate
from typing import IO, Any, Final
from xml.etree.ElementTree import Element, TreeBuilder, XMLParser

__all__ = ["ExpatError", "Handlers", "local", "parse", "tree"]

_BLOCK: Final = 1 << 16


class Handlers(dict[str, Callable[..., None]]):
    """Handlers by local name; a name with a prefix is looked up once, an unknown one does nothing."""

    def __missing__(self, name: str) -> Callable[..., None]:
        found = self.get(name.rpartition(":")[2], _nothing) if ":" in name else _nothing
        self[name] = found
        return found


def parse(source: IO[bytes], starts: Handlers, ends: Handlers, chars: list[str]) -> Iterator[None]:
    """Parse XML block by block, yielding after each; handlers see elements as they come.

    A start handler is called with the attributes, an end handler with nothing. Text is put into `chars`.

    Raises:
        ExpatError: it is no XML from some point on, or declares a document type.
    """
    parser = ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = lambda name, attributes: starts[name](attributes)
    parser.EndElementHandler = lambda name: ends[name]()
    parser.CharacterDataHandler = chars.append
    parser.StartDoctypeDeclHandler = _refuse
    while block := source.read(_BLOCK):
        parser.Parse(block, False)
        yield
    parser.Parse(b"", True)
    yield


def tree(data: bytes) -> Element:
    """Return a small part as elements.

    Raises:
        ExpatError, ParseError: it is no XML.
    """
    parser = XMLParser(target=_Builder())
    parser.feed(data)
    root: Element = parser.close()
    return root


def local(element: Element) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


class _Builder(TreeBuilder):
    def doctype(self, *_: Any) -> None:
        _refuse()


def _nothing(*_: Any) -> None:
    pass


def _refuse(*_: Any) -> None:
    raise ExpatError("a document type, which is not read")
