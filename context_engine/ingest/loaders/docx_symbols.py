"""The characters of the symbol fonts of Office as text."""

from __future__ import annotations

from typing import Final

# Adobe's Symbol encoding, from 0x20 and from 0xA1; "\ufffd" for characters that mean nothing on their own.
_LOW: Final = " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_\ufffdαβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"
_HIGH: Final = "ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…\ufffd\ufffd↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑"
_SYMBOL: Final = {
    **{0x20 + place: char for place, char in enumerate(_LOW)},
    **{0xA1 + place: char for place, char in enumerate(_HIGH)},
}
_WINGDINGS: Final = {
    0xFE: "[x]", 0xFD: "[x]", 0x78: "[x]", 0xA8: "[ ]", 0x6F: "[ ]", 0x71: "[ ]", 0x72: "[ ]", 0xFC: "✓", 0xFB: "✗",
    0xE0: "→", 0xDF: "←", 0xE1: "↑", 0xE2: "↓", 0xE8: "→", 0xF0: "⇒", 0xF3: "⇔", 0x6C: "●", 0x6E: "■", 0xA7: "▪",
    0x9F: "•", 0x76: "❖", 0xD8: "➢", 0x4A: "☺", 0x4C: "☹",
}  # fmt: skip
_WINGDINGS_2: Final = {0x52: "[x]", 0x51: "[x]", 0xA3: "[ ]", 0x50: "✓", 0x4F: "✗"}
_FONTS: Final = {"symbol": _SYMBOL, "wingdings": _WINGDINGS, "wingdings 2": _WINGDINGS_2}
_PRIVATE: Final = 0xF000  # where symbol fonts keep their 256 characters


def symbol(font: str, code: str) -> str | None:
    """Return a character of a font as text; None for a drawing without an equivalent.

    >>> symbol("Symbol", "F061"), symbol("Wingdings", "F0FE"), symbol("Arial", "00A7"), symbol("Webdings", "F041")
    ('α', '[x]', '§', None)
    """
    try:
        place = int(code, 16)
    except ValueError:
        return None
    known = _FONTS.get(font.strip().lower())
    if known is not None:
        character = known.get(place - _PRIVATE if place >= _PRIVATE else place)
        return None if character == "\ufffd" else character
    return chr(place) if 0x20 <= place < 0xD800 else None
