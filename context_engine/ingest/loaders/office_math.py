"""Office's equations as text (ECMA-376 Part 1, 22.1): `CET1/RWA`, `x^2`, `√(a)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

M: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
Read = Callable[[Any], str]


def _part(element: Any, name: str, read: Read) -> str:
    child = element.find(f"{M}{name}")
    return "" if child is None else read(child).strip()


def _grouped(text: str) -> str:
    return text if len(text) < 2 or text.replace(".", "").isalnum() else f"({text})"


def _fraction(element: Any, read: Read) -> str:
    return f"{_grouped(_part(element, 'num', read))}/{_grouped(_part(element, 'den', read))}"


def _scripts(element: Any, read: Read) -> str:
    return _part(element, "e", read) + _limits(element, read)


def _root(element: Any, read: Read) -> str:
    degree = _part(element, "deg", read)
    return f"{degree}√({_part(element, 'e', read)})"


def _sum(element: Any, read: Read) -> str:
    return f"{_sign(element, 'nary', 'chr', '∫')}{_limits(element, read)} {_part(element, 'e', read)}"


def _limits(element: Any, read: Read) -> str:
    below, above = _part(element, "sub", read), _part(element, "sup", read)
    return (f"_{_grouped(below)}" if below else "") + (f"^{_grouped(above)}" if above else "")


def _brackets(element: Any, read: Read) -> str:
    inner = _sign(element, "d", "sepChr", "|").join(read(argument).strip() for argument in element.findall(f"{M}e"))
    return f"{_sign(element, 'd', 'begChr', '(')}{inner}{_sign(element, 'd', 'endChr', ')')}"


def _matrix(element: Any, read: Read) -> str:
    rows = (", ".join(read(cell).strip() for cell in row.findall(f"{M}e")) for row in element.findall(f"{M}mr"))
    return f"[{'; '.join(rows)}]"


def _sign(element: Any, name: str, sign: str, default: str) -> str:
    child = element.find(f"{M}{name}Pr/{M}{sign}")
    return default if child is None else str(child.get(f"{M}val") or "")


MATH: Final[Mapping[str, Callable[[Any, Read], str]]] = {
    f"{M}f": _fraction,
    f"{M}sSub": _scripts,
    f"{M}sSup": _scripts,
    f"{M}sSubSup": _scripts,
    f"{M}rad": _root,
    f"{M}nary": _sum,
    f"{M}d": _brackets,
    f"{M}m": _matrix,
}
"""Writers of equation elements, given a reader for their parts; any other element is its parts in sequence."""


def equation_text(element: Any) -> str:
    """Return the text of an equation, or of a part of it."""
    if element.tag in MATH:
        return MATH[element.tag](element, _parts)
    return (element.text or "") if element.tag == f"{M}t" else _parts(element)


def _parts(element: Any) -> str:
    return "".join(map(equation_text, element))
