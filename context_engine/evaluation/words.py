"""Numbers and texts as a report shows them."""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 160


def shown(value: float) -> str:
    """Return a measure as people read it."""
    return f"{value:.3f}"


def signed(value: float) -> str:
    """Return a difference with its sign.

    >>> signed(0.0123), signed(-0.0004)
    ('+0.012', '±0.000')
    """
    return "±0.000" if abs(value) < 0.0005 else f"{value:+.3f}".replace("-", "−")


def share_text(value: float) -> str:
    """Return a share in percent.

    >>> share_text(0.1038), share_text(0.00123)
    ('10.4 %', '0.12 %')
    """
    return f"{100 * value:.1f} %" if value >= 0.01 or not value else f"{100 * value:.2g} %"


def time_text(value: float) -> str:
    """Return milliseconds."""
    return f"{value:.1f} ms" if value >= 0.1 else f"{value:.2f} ms"


def cut(text: str) -> str:
    """Return a text on one line, cut after 160 characters."""
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
