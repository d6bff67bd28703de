"""A text as the rules of stage 2 read it: cut into words once, however many of them ask and how often."""

from __future__ import annotations

from typing import NamedTuple

from context_engine.core.policy.injection import injection_kinds
from context_engine.core.ranking.dedup_body import body, head
from context_engine.core.ranking.dedup_lexicon import carries
from context_engine.core.ranking.dedup_marks import marks
from context_engine.core.text import Reading, content_sha256, normalize, read, tokens


class Body(NamedTuple):
    """What dedup compares: the text without its own section label and header lines.

    Attributes:
        text: as it is written.
        tokens: each once.
        carried: those that carry the meaning of a rule, sorted (`dedup_lexicon.carries`).
        head: the header of a title page, "" for other texts.
    """

    text: str
    tokens: tuple[str, ...]
    carried: tuple[str, ...]
    head: str


class AnalysedText:
    """A text cut into words, tokens and terms, with what dedup compares; each is made when first asked for, and kept.

    A value: what it gives depends on the text alone. Threads may share one; at worst two of them make the same part.

    Args:
        text: as the source gave it.
    """

    __slots__ = ("_body", "_identity", "_injection", "_marks", "_reading", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._reading: Reading | None = None
        self._body: Body | None = None
        self._marks: tuple[tuple[str, ...] | None] | None = None
        self._identity: str | None = None
        self._injection: tuple[str, ...] | None = None

    @property
    def reading(self) -> Reading:
        """The number of words, the tokens and the terms."""
        if self._reading is None:
            self._reading = read(self.text)
        return self._reading

    @property
    def body(self) -> Body:
        """What dedup compares."""
        if self._body is None:
            rest = body(self.text)
            found = self.reading.tokens if rest is self.text else tuple(dict.fromkeys(tokens(rest)))
            self._body = Body(rest, found, tuple(sorted(filter(carries, found))), head(self.text, rest))
        return self._body

    @property
    def marks(self) -> tuple[str, ...] | None:
        """What the body must have in common with another's for their merge (`dedup_marks`)."""
        if self._marks is None:
            self._marks = (marks(self.body.text),)
        return self._marks[0]

    @property
    def identity(self) -> str:
        """The hash of the normalised text, the same for texts that read the same; "" for one without characters."""
        if self._identity is None:
            plain = normalize(self.text)
            self._identity = content_sha256(plain) if plain else ""
        return self._identity

    @property
    def injection(self) -> tuple[str, ...]:
        """The kinds of signs that it wants to be obeyed or to pass for something else; () for none."""
        if self._injection is None:
            self._injection = injection_kinds(self.text)
        return self._injection
