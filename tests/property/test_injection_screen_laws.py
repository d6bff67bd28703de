"""The quick screens of the detector change no verdict: with them it finds what it finds by trying every phrase."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.models import Chunk
from context_engine.core.policy import injection
from context_engine.core.policy.injection import injection_findings, label_kinds
from context_engine.core.policy.injection_phrases import PHRASES
from context_engine.core.ranking.candidates import AnalysedText

WORDS = sorted({phrase.replace("*", "") for phrases in PHRASES.values() for phrase in phrases})
PIECES = st.sampled_from(WORDS) | st.sampled_from(
    ["approval ", "—", "\n\n", "0", "SOP-7 ", sha256(b"a text").hexdigest(), "5e", "i g n o r e ", "<|im_start|>", "ﬁ"]
)
WRITINGS = st.sampled_from(
    [
        "".join,
        " ".join,
        lambda pieces: "".join(pieces).replace(" ", ""),
        lambda pieces: " ".join("".join(pieces).replace(" ", "")),
        lambda pieces: "-".join(pieces).translate(str.maketrans("oieast", "013457")),
    ]
)


@contextmanager
def every_phrase_tried() -> Iterator[None]:
    every = frozenset(PHRASES)
    with (
        patch.object(injection, "_possible", lambda _text: every),
        patch.object(injection, "_possible_in_letters", lambda _letters: every),
    ):
        yield


@given(st.lists(PIECES, max_size=8), WRITINGS)
def test_the_screens_leave_out_no_phrase_that_a_text_holds(pieces, written):
    text = written(pieces)
    found = injection_findings(text)
    with every_phrase_tried():
        assert found == injection_findings(text)


def test_every_phrase_run_together_with_others_passes_the_screen():
    """Each stands between letters that are no phrase, so that it begins anywhere."""
    rng = random.Random(3)
    for name, phrases in PHRASES.items():
        looked_for = injection._phrase_class(name)
        for phrase in phrases:
            bare = injection.fold(phrase).text.replace(" ", "").replace("*", "")
            letters = rng.choice(("x", "qz7", "0f3ab9")) + bare + "qqqqqqqqqqqqqqqqqq"
            if looked_for.in_letters(letters):
                assert name in injection._possible_in_letters(letters), phrase


@given(st.lists(PIECES, min_size=1, max_size=4), WRITINGS)
def test_labels_that_are_kept_are_judged_as_labels_read_anew(pieces, written):
    chunk = Chunk(content="A rule.", title=written(pieces), metadata={"note": [written(pieces[::-1])], "n": 1})
    assert label_kinds(chunk, lambda text: AnalysedText(text).injection) == label_kinds(chunk)
