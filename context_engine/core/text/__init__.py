"""Normalising, tokenising and stemming; pure functions on text."""

from context_engine.core.text.fold import BLANK, BRACKETS, FoldedText, fold
from context_engine.core.text.markup import PLACEHOLDER, has_words, without_html, without_markup, without_templating
from context_engine.core.text.normalize import bare_version, content_sha256, leading, normalize
from context_engine.core.text.segment import Segmenter, check_segmenter, segmented
from context_engine.core.text.tokens import (
    ANALYSER_VERSION,
    CLAUSE,
    STOP_WORDS,
    Reading,
    bigrams,
    has_cjk,
    read,
    stems,
    term_weights,
    terms,
    terms_of_word,
    tokens,
    tokens_of_word,
    words,
)

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
