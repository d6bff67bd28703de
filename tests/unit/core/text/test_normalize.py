"""The beginning of a text ends where a character ends."""

from unicodedata import combining

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.text import leading

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"

FLAGS = "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7"  # DE, FR

WAVE = "\U0001f44b\U0001f3fd"


@pytest.mark.parametrize(
    ("text", "most", "kept"),
    [
        ("short", 500, "short"),
        ("short", 5, "short"),
        ("longer", 4, "long"),
        ("cafe\u0301s", 4, "caf"),
        ("cafe\u0301s", 5, "cafe\u0301"),
        (f"a{FAMILY}b", 1, "a"),
        (f"a{FAMILY}b", 2, "a"),
        (f"a{FAMILY}b", 3, "a"),
        (f"a{FAMILY}b", 6, f"a{FAMILY}"),
        (FLAGS, 1, ""),
        (FLAGS, 3, FLAGS[:2]),
        (f"x{WAVE}", 2, "x"),
        ("a\r\nb", 2, "a"),
        ("\u1112\u1161\u11ab", 2, ""),
        ("e" + "\u0301" * 100, 50, "e" + "\u0301" * 49),
    ],
)
def test_no_character_is_halved(text: str, most: int, kept: str) -> None:
    assert leading(text, most) == kept


@given(
    st.text(alphabet="ab \u0301\u0308\u200d\U0001f469\U0001f1e9\U0001f3fd\r\n\u1161", max_size=60), st.integers(0, 60)
)
def test_it_is_a_beginning_and_never_longer(text: str, most: int) -> None:
    kept = leading(text, most)
    assert text.startswith(kept)
    assert len(kept) <= most
    assert len(kept) >= min(len(text), most) - 32
    after = text[len(kept) :]
    cut = 0 < len(kept) < most and not combining(text[most : most + 1] or "a")
    assert not (cut and after and combining(after[0]))
