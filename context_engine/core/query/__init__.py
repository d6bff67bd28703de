"""Query processing: pure functions from the user's words to the search."""

from context_engine.core.query.exact import exact_first, phrases_held
from context_engine.core.query.glossary import Glossary, Mention, acronyms, glossary_of
from context_engine.core.query.language import language
from context_engine.core.query.prepare import clean, prepare, sub_questions, variants
from context_engine.core.query.references import codes, phrases, references

__all__ = [
    "Glossary",
    "Mention",
    "acronyms",
    "clean",
    "codes",
    "exact_first",
    "glossary_of",
    "language",
    "phrases",
    "phrases_held",
    "prepare",
    "references",
    "sub_questions",
    "variants",
]
