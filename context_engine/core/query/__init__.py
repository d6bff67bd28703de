"""Query processing: pure functions from the user's words to the search."""

from context_engine.core.query.features import codes, language, phrases, references
from context_engine.core.query.glossary import Glossary, Mention, acronyms, glossary_of
from context_engine.core.query.prepare import clean, prepare, sub_questions, variants

__all__ = [
    "Glossary",
    "Mention",
    "acronyms",
    "clean",
    "codes",
    "glossary_of",
    "language",
    "phrases",
    "prepare",
    "references",
    "sub_questions",
    "variants",
]
