"""Formulas in MathML as readable text: (a + b)/c for a fraction, x^2, x_i, √(x)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from context_engine.ingest.loaders.markdown import one_line

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode


_ALOUD: Final = frozenset("+-−=<>≤≥≠≈×·∈→")
_NOT_SHOWN: Final = ("annotation", "annotation-xml", "mphantom")
_MOST_DEPTH: Final = 50


def formula(node: LexborNode, depth: int = 0) -> str:
    """Return the text of a MathML element; below 50 levels only the characters are read."""
    if depth > _MOST_DEPTH:
        return one_line(node.text() or "")
    parts = [_part(child, depth) for child in node.iter(include_text=True)]
    parts = [part for part in parts if part]
    write = _WRITERS.get(node.tag or "")
    if write is not None and len(parts) > 1:
        return write(parts)
    if node.tag in ("msqrt", "mroot"):
        return f"√({''.join(parts)})"
    if node.tag == "mtr":
        return ", ".join(parts)
    if node.tag == "mtable":
        return f"[{'; '.join(parts)}]"
    return one_line("".join(parts))


def _part(node: LexborNode, depth: int) -> str:
    if node.is_text_node:
        return one_line(node.text_content or "")
    if node.tag in _NOT_SHOWN:
        return ""
    text = formula(node, depth + 1)
    return f" {text} " if node.tag == "mo" and text in _ALOUD else text


def _grouped(text: str) -> str:
    bare = text.strip()
    return bare if len(bare) < 2 or bare.replace(".", "").isalnum() else f"({bare})"


def _fraction(parts: Sequence[str]) -> str:
    return f"{_grouped(parts[0])}/{_grouped(''.join(parts[1:]))}"


def _above(parts: Sequence[str]) -> str:
    return f"{parts[0]}^{_grouped(''.join(parts[1:]))}"


def _below(parts: Sequence[str]) -> str:
    return f"{parts[0]}_{_grouped(''.join(parts[1:]))}"


def _both(parts: Sequence[str]) -> str:
    return f"{_below(parts[:2])}^{_grouped(''.join(parts[2:]))}" if len(parts) > 2 else _below(parts)


def _root(parts: Sequence[str]) -> str:
    return f"{parts[-1]}√({''.join(parts[:-1])})"


_WRITERS: Final[dict[str, Callable[[Sequence[str]], str]]] = {
    "mfrac": _fraction,
    "msup": _above,
    "mover": _above,
    "msub": _below,
    "munder": _below,
    "msubsup": _both,
    "munderover": _both,
    "mroot": _root,
}
