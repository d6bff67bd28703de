"""A chat model's answer as sentences with the labels and quotes that they cite, whole or while it arrives."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from context_engine.core.chunking.spans import ends_in_abbreviation
from context_engine.core.text import has_words, without_markup

QUOTE_FORM: Final = '[1: "the words of the passage"]'
"""How a model is asked to quote: the label with the words that a sentence rests on."""

_MOST_RANGE: Final = 20
_LABEL: Final = re.compile(
    r"[\[【]\^?(?:(?:source|passage|document|doc|ref)s?\.? )?(?P<numbers>\d{1,3}(?:\s*(?:[,;&-]|–|and)\s*\d{1,3})*)"
    r"(?P<quotes>(?:\s*[:,;]?\s*[\"“][^\"“”\[\]\n]{1,2000}[\"”])*)\s*[\]】]",
    re.IGNORECASE,
)
_QUOTE: Final = re.compile(r"[\"“]([^\"“”\[\]\n]+)[\"”]")
_OPEN_LABEL: Final = re.compile(r"[\[【][^\[\]【】\n]{0,2400}\Z")
_MARKER: Final = re.compile(r"\s*(?:#{1,6}|>|(?P<item>[-*+•]|\d{1,3}[.)]|\(?[a-z]\)))\s+")
_ANNOUNCES: Final = re.compile(r"(?:\w+[,!]\s+)?(?:.{0,60}, )?here(?:'s|’s| is| are)\b", re.IGNORECASE)
"""How a lead-in begins that announces an answer and says nothing itself: "Here are the steps:"."""
_RULE: Final = re.compile(r"[\s|:=*_-]*|\s*(?:```|~~~).*")
_END: Final = re.compile(r"[.!?…]+[\"'”’)\]*_]*")
_NUMBER: Final = re.compile(r"\d+")
_BEFORE_STOP: Final = re.compile(r"\s+(?=[.,;:!?]|$)")


class CitedSentence(NamedTuple):
    """A sentence of an answer as a model wrote it.

    Attributes:
        text: without labels, quotes in labels, and marks of Markdown.
        labels: the cited labels, "[1]", each once, in order; an item of a list without labels has those of its lead-in.
        quotes: verbatim words given with the labels.
        lead_in: of an item of a list: the sentence with a colon before the list; else empty.
    """

    text: str
    labels: tuple[str, ...]
    quotes: tuple[str, ...]
    lead_in: str = ""

    @property
    def claim(self) -> str:
        """What is to be checked: the sentence after its lead-in, unless that only announces it."""
        if not self.lead_in or _ANNOUNCES.match(self.lead_in):
            return self.text
        return f"{self.lead_in.rstrip(':')} {self.text}"


class SentenceReader:
    """Cuts an answer into sentences while it arrives; a sentence is released when nothing more can belong to it.

    The sentences are the same however the answer is cut into parts. Labels belong to the sentence that they stand in or
    right after; at the beginning of a line, to the one after them.
    """

    def __init__(self) -> None:
        self._buffer = ""
        self._scanned = 0  # no sentence ends before this place of the buffer
        self._lead = CitedSentence("", (), ())

    def feed(self, text: str) -> list[CitedSentence]:
        """Return the sentences that are complete after the next part of the answer."""
        self._buffer += text
        return self._released(final=False)

    def close(self) -> list[CitedSentence]:
        """Return what is left at the end of the answer."""
        out = self._released(final=True)
        self._buffer, self._scanned, self._lead = "", 0, CitedSentence("", (), ())
        return out

    def _released(self, *, final: bool) -> list[CitedSentence]:
        out: list[CitedSentence] = []
        while self._buffer:
            end, self._scanned = _end(self._buffer, self._scanned, final=final)
            if end is None:
                break
            raw, self._buffer, self._scanned = self._buffer[:end], self._buffer[end:], 0
            if sentence := self._sentence(raw):
                out.append(sentence)
        return out

    def _sentence(self, raw: str) -> CitedSentence | None:
        """Return the sentence of a piece of the answer; None if it has no words."""
        marker = _MARKER.match(raw)
        sentence = _parsed(raw[marker.end() :] if marker else raw)
        if not has_words(sentence.text) or _RULE.fullmatch(raw):
            return None
        if marker and marker["item"]:
            labels = sentence.labels or self._lead.labels
            return sentence._replace(labels=labels, lead_in=self._lead.text)
        self._lead = sentence if sentence.text.endswith((":", "：")) else CitedSentence("", (), ())
        return sentence


def _parsed(raw: str) -> CitedSentence:
    labels: list[str] = []
    quotes: list[str] = []
    for label in _LABEL.finditer(raw):
        labels += _numbered(label["numbers"])
        quotes += [quote.strip() for quote in _QUOTE.findall(label["quotes"])]
    text = _BEFORE_STOP.sub("", without_markup(_LABEL.sub(" ", raw)))
    return CitedSentence(text.strip(" |"), tuple(dict.fromkeys(labels)), tuple(quotes))


def _numbered(numbers: str) -> list[str]:
    """Return the labels of "1, 3" or "2-4"."""
    out: list[int] = []
    for part in re.split(r"\s*(?:[,;&]|and)\s*", numbers):
        first, *last = map(int, _NUMBER.findall(part))
        out += range(first, min(last[0], first + _MOST_RANGE) + 1) if last and last[0] > first else [first, *last]
    return [f"[{number}]" for number in out]


def _end(text: str, start: int, *, final: bool) -> tuple[int | None, int]:
    """Return where the first sentence of a text ends, None if that depends on what is still to come; and the place
    before which no sentence ends.
    """
    marker = _MARKER.match(text)
    place = max(start, marker.end() if marker else len(text) - len(text.lstrip()))
    while place < len(text):
        end, following = _candidate(text, place, final=final)
        if end is None or end > 0:
            return end, place
        place = following
    return (len(text) if final else None), place


def _candidate(text: str, place: int, *, final: bool) -> tuple[int | None, int]:
    """Return where the sentence ends if a mark at a place ends it, 0 if none does, None if what follows decides; and
    the place after the mark.
    """
    char = text[place]
    if char in "[【":
        end = _label_end(text, place, final=final)
        return (None, place) if end is None else (0, max(end, place + 1))
    if char == "\n":
        return _after_labels(text, place, final=final, alone=True), place
    if char in "。！？":
        return _after_labels(text, place + 1, final=final), place
    stop = _END.match(text, place)
    if stop is None:
        return 0, place + 1
    ended = _is_end(text, place, stop.end(), final=final) if stop.end() < len(text) or final else None
    if ended:
        return _after_labels(text, stop.end(), final=final), place
    return (None if ended is None else 0), stop.end()


def _label_end(text: str, place: int, *, final: bool) -> int | None:
    """Return where the label at a place ends; the place itself if it is none; None if it may become one."""
    if label := _LABEL.match(text, place):
        return label.end()
    return None if not final and _OPEN_LABEL.match(text, place) else place


def _is_end(text: str, stop: int, end: int, *, final: bool) -> bool | None:
    """Return whether a sentence ends with the marks between two places; None if the next characters decide."""
    following = text[end:].lstrip(" \t")
    if not following:
        return True if final else None
    if following[0] == "\n":
        return True
    if following[0] in "[【":
        label = _label_end(text, len(text) - len(following), final=final)
        return None if label is None else label > len(text) - len(following) or text[end] in " \t"
    if text[end] not in " \t" or following[0].islower():
        return False
    return not (text[stop] == "." and ends_in_abbreviation(text[:stop]))


def _after_labels(text: str, end: int, *, final: bool, alone: bool = False) -> int | None:
    """Return where the labels right after a sentence end; `alone`: they must stand in a line of their own."""
    place = end
    while True:
        place += len(text[place:]) - len(text[place:].lstrip() if alone else text[place:].lstrip(" \t"))
        if place == len(text):
            return end if final else None
        if text[place] not in "[【":
            return end
        label = _label_end(text, place, final=final)
        if label is None:
            return None
        if label == place:
            return end
        if alone:
            rest = text[label:].lstrip(" \t")
            if not rest and not final:
                return None
            if rest and rest[0] not in "\n[【":
                return end
        end = place = label
