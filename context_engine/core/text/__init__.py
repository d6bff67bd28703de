"""Normalising, tokenising and stemming; pure functions on text."""

from context_engine.core.text.fold import FoldedText, fold
from context_engine.core.text.leading import leading
from context_engine.core.text.look_alikes import BLANK, BRACKETS
from context_engine.core.text.markup import PLACEHOLDER, has_words, without_html, without_markup, without_templating
from context_engine.core.text.normalize import content_sha256, normalize
from context_engine.core.text.segment import Segmenter, check_segmenter, segmented
from context_engine.core.text.stem import stems
from context_engine.core.text.tokens import (
    ANALYSER_VERSION,
    CLAUSE,
    STOP_WORDS,
    Reading,
    bigrams,
    has_cjk,
    read,
    term_weights,
    terms,
    terms_of_word,
    tokens,
    tokens_of_word,
    words,
)
from context_engine.core.text.version import bare_version

__all__ = [
    "ANALYSER_VERSION",
    "BLANK",
    "BRACKETS",
    "CLAUSE",
    "PLACEHOLDER",
    "STOP_WORDS",
    "FoldedText",
    "Reading",
    "Segmenter",
    "bare_version",
    "bigrams",
    "check_segmenter",
    "content_sha256",
    "fold",
    "has_cjk",
    "has_words",
    "leading",
    "normalize",
    "read",
    "segmented",
    "stems",
    "term_weights",
    "terms",
    "terms_of_word",
    "tokens",
    "tokens_of_word",
    "without_html",
    "without_markup",
    "without_templating",
    "words",
]
