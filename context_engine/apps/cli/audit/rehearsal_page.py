"""`audit rehearse --html`: what a draft would change, as one file that loads and runs nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from context_engine.core.models import SearchResult
    from context_engine.insight.rehearsal import AnswerText, RehearsedAnswer

CHANGES: Final = ("decision", "lost", "gained", "order", "scores", "failed", "same")
"""The gravest first; "failed" is a question that could not be asked."""

_QUIET: Final = ("same", "scores")
_MOST_CASES: Final = 500
_WORDS: Final = {
    "decision": "Another decision",
    "lost": "Lose a text",
    "gained": "Only gain texts",
    "order": "Another order",
    "scores": "Other scores",
    "failed": "Could not be asked",
    "same": "Stay the same",
}


class RehearsedSearch(NamedTuple):
    """One question and its change.

    Attributes:
        asker: a pseudonym; "" if nobody was named.
        problem: why it could not be asked; "" if it was.
        question: its text; "" if it was not asked.
        quotes: the lost and gained texts by their SHA-256.
    """

    search_id: str
    time: str
    domain: str
    asker: str
    change: str
    answer: RehearsedAnswer | None
    problem: str = ""
    question: str = ""
    quotes: Mapping[str, str] = {}

    def to_dict(self) -> dict[str, Any]:
        """Return it as `--json` writes it."""
        answer = self.answer
        return {
            "search_id": self.search_id,
            "time": self.time,
            "domain": self.domain,
            "asker": self.asker,
            "change": self.change,
            "problem": self.problem or None,
            "decisions": None if answer is None else list(answer.decisions),
            "lost": [] if answer is None else [text._asdict() for text in answer.lost],
            "gained": [] if answer is None else [text._asdict() for text in answer.gained],
        }


class ChangeCount(NamedTuple):
    """How many answers of a domain change in one way, and for how many askers; unnamed ones count as one."""

    domain: str
    change: str
    answers: int
    askers: int


def change_counts(searches: Iterable[RehearsedSearch]) -> list[ChangeCount]:
    """Return the counts by domain and change, the largest first."""
    askers: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    answers = Counter[tuple[str, str]]()
    for search in searches:
        answers[search.domain, search.change] += 1
        askers[search.domain, search.change].add(search.asker)
    counts = [ChangeCount(*key, count, len(askers[key])) for key, count in answers.items()]
    return sorted(counts, key=lambda count: (-count.answers, count.domain, CHANGES.index(count.change)))


def quotes_of(answer: RehearsedAnswer, results: Iterable[SearchResult]) -> dict[str, str]:
    """Return the lost and gained texts by their SHA-256, from the answers of today and of the draft."""
    from context_engine.core.text import content_sha256

    wanted = {text.sha256 for text in (*answer.lost, *answer.gained)}
    texts = {content_sha256(chunk.content): chunk.content for result in results for chunk in result.chunks}
    return {digest: text for digest, text in texts.items() if digest in wanted}


def text_name(text: AnswerText) -> str:
    """Return the name of a text for people: its document and version, else source and chunk."""
    version = f" v{text.document_version.removeprefix('v')}" if text.document_version else ""
    return f"{text.document_id}{version}" if text.document_id else f"{text.source_id}/{text.chunk_id}"


def rehearsal_page(
    searches: Sequence[RehearsedSearch], draft: Sequence[str], *, mask: Callable[[str], str] | None, demo: bool
) -> str:
    """Return the page.

    Args:
        draft: what was rehearsed, such as the names of its files.
        mask: masks personal data in questions and texts.
    """
    from context_engine.apps.web.rendering import Page, standalone_page

    totals = Counter(search.change for search in searches)
    changed = sorted(
        (search for search in searches if search.change not in _QUIET), key=lambda each: CHANGES.index(each.change)
    )
    values = {
        "draft": draft,
        "asked": len(searches),
        "tiles": [(change, _WORDS[change], totals[change]) for change in CHANGES if totals[change]],
        "counts": change_counts(searches),
        "words": _WORDS,
        "askers": len({search.asker for search in searches}),
        "concerned": len({search.asker for search in changed}),
        "changed": changed[:_MOST_CASES],
        "more": max(len(changed) - _MOST_CASES, 0),
        "text_name": text_name,
        "masked": (lambda text: text) if mask is None else mask,
    }
    return standalone_page(Page("review/rehearsal.html", values), demo=demo)
