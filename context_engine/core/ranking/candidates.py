"""The pool of stage 2: candidates by identity, with their effective authority, and their texts as stage 2 reads them.

A text is analysed once: its words, its body without header lines, and its marks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final, NamedTuple

from context_engine.core.models import Chunk, Key, Notice, NoticeCode, RawAnswer, Score, SourceSpec
from context_engine.core.policy.injection import injection_kinds
from context_engine.core.policy.trust import (
    EffectiveAuthority,
    Freshness,
    declared_authority,
    effective_authority,
    freshness,
)
from context_engine.core.ranking.guard import carries, is_quantity, marks
from context_engine.core.text import Reading, content_sha256, normalize, read, tokens

_TITLE_PAGE: Final = 3
_MOST_HEADER_LINES: Final = 24
_LONGEST_HEADER_LINE: Final = 160
_MOST_TITLES: Final = 3
_MOST_HEADINGS: Final = 6
_MOST_TITLE_WORDS: Final = 12
_MOST_VALUE_WORDS: Final = 16

# Lines that only a document's header has: one of them makes a header. Fields that a record may also have (_WEAK) count
# only beside such a line.
_STRONG: Final = re.compile(
    r"[\s|>*_#-]*(?:"
    r"(?:(?:document|doc|notice|template|policy|procedure|sop|file|circular)[ _.]*(?:no|nos|number|nr|id|ref|"
    r"reference|code|version|date)|(?:current |document )?version(?: no| number)?|revision(?: no| number)?|edition|"
    r"(?:effective|revision|issue|publication)[ _]date|date of (?:issue|approval|revision|publication)|"
    r"effective[ _]from|last (?:updated|revised))\.?[\s*_]*[:：|]"
    r"|page \d+ (?:of|/) \d+\W*$"
    r"|(?:文件|文档|制度|通知)(?:编号|編號)[\s*]*[:：|]|(?:版本|版次|生效日期|发布日期|修订日期)[\s*]*[:：|])",
    re.IGNORECASE,
)
_WEAK: Final = re.compile(
    r"[\s|>*_#-]*(?:"
    r"(?:owner|author|department|distribution|supersedes|replaces|(?:prepared|approved|reviewed|issued) by|"
    r"(?:document|procedure|policy) owner|effective to|valid (?:from|to))[\s*_]*[:：|]"
    r"|(?:date|effective|issued|approved|reviewed|updated|published|printed|next review|review date|next review date|"
    r"page|ref|reference)\.?[\s*_]*[:：|](?=[^:：|]*\d)"
    r"|classification[\s*_]*[:：|][\s*_]*(?:public|internal|restricted|confidential|secret)\b"
    r"|(?:负责部门|作者|日期|页码|密级)[\s*]*[:：|])",
    re.IGNORECASE,
)
_RULE: Final = re.compile(r"[\W_]*$")
_FIELD: Final = re.compile(r"[^:：.!?#]{1,40}[:：]\s*\S")
_NO_TITLE: Final = re.compile(r"[-*•|\d(]|.*[.!?;:,。！？；：，][\"”’)*]*$")
_NEXT: Final = r"(?=[\"“(\[*_]*(?:[A-Z]|(?-i:[\u3400-\u9fff])))"
_DOTTED: Final = r"\d{1,3}(?:\.\d{1,3})+\.?(?:\(\w{1,4}\))*"
_LABEL: Final = re.compile(
    rf"(?P<marks>[#>*_\s]*)(?:"
    rf"(?:{_DOTTED}|\d{{1,3}}[.)])(?:[\s:)*–—-]*\n|[\s:)*–—-]+{_NEXT})"
    rf"|(?P<bare>\d{{1,3}}\s+){_NEXT}"
    r"|\((?:[a-z]{1,4}|\d{1,2})\)\s+"
    r"|(?i:section|clause|article|chapter|part|annex|appendix|schedule|paragraph|para\.?|rule|§+)\s*"
    rf"(?:{_DOTTED}[\s:.–—-]+{_NEXT}|(?:{_DOTTED}|\d{{1,3}}[A-Z]?|[A-Z]|[IVXLC]+)(?:\(\w{{1,4}}\))*\s*(?:[:.–—-]\s|\n))"
    r"|第[一二三四五六七八九十百千\d.]+[条條章节節款项項][\s:：、]+|[一二三四五六七八九十]+、|（[一二三四五六七八九十]+）"
    r")\s*"
)
_WORD: Final = re.compile(r"\w+")


def body(text: str) -> str:
    """Return the text without its own leading header lines and section label; the same object if it has neither.

    Header lines are lines such as "Document no.: ...", "Version: ...", "Effective date: ..." at the top, and the title
    lines above them; other fields stay. A label is a number the text is filed under ("### 7.3", "Clause 4.2:", "(a)"),
    not one it mentions ("Section 4 requires", "7.5 Million").
    """
    rest = _below_header(text) if "\n" in text[: 4 * _LONGEST_HEADER_LINE] else text
    rest = _unlabelled(rest)
    return rest if rest.strip() else text


def head(text: str, rest: str) -> str:
    """Return the normalised header of a title page; "" for a text without a header, or with more text below it.

    One copy of a rule may carry a header and another may not; that difference alone does not keep the copies apart. But
    a title page is little more than its header, so two title pages are two documents, and a reader must be able to tell
    their numbers, versions and owners apart.

    Args:
        text: the whole text.
        rest: its body.
    """
    if rest is text:
        return ""
    end = _scanned(text)[1]
    return normalize(text[:end]) if len(rest) < _TITLE_PAGE * end else ""


def _unlabelled(text: str) -> str:
    """Drop the section label; if several headings stand at the top ("## 9 Records", "### 9.1 Retention"), drop each
    label.
    """
    above: list[str] = []
    for _ in range(_MOST_HEADINGS):
        label = _LABEL.match(text)
        rest = text[label.end() :] if label and _is_label(label, text) else text
        if not text.startswith("#"):
            break
        heading, _, below = rest.partition("\n")
        text = below.lstrip()
        if not text.startswith("#"):
            break
        above.append(heading)
    else:
        rest = text
    return "\n".join([*above, rest]) if above else rest


def _is_label(label: re.Match[str], text: str) -> bool:
    if label["bare"] and "#" not in label["marks"]:
        return False
    following = _WORD.search(text, label.end())
    return following is None or not is_quantity(following[0].casefold())


def _below_header(text: str) -> str:
    """Drop the header lines and the titles above them; fields with other names stay."""
    fields, end = _scanned(text)
    return "\n".join([*fields, text[end:]]) if end else text


def _scanned(text: str) -> tuple[list[str], int]:
    """Return the other fields among the header lines, and the offset where the header ends (0 if there is none).

    The first sentence ends it.
    """
    fields: list[str] = []
    passed: list[str] = []
    titles = end = stop = 0
    strong = False
    for line in text.split("\n", _MOST_HEADER_LINES)[:_MOST_HEADER_LINES]:
        stop += len(line) + 1
        line = line.strip()
        if _is_header(line):
            strong = strong or _STRONG.match(line) is not None
            end = stop
            fields += passed
            passed = []
        elif _FIELD.match(line):
            passed.append(line)
        elif not _RULE.match(line):
            titles += 1
            if end or titles > _MOST_TITLES or _NO_TITLE.match(line) or len(line.split()) > _MOST_TITLE_WORDS:
                break
    return (fields, end) if strong else ([], 0)


def _is_header(line: str) -> bool:
    return (
        len(line) <= _LONGEST_HEADER_LINE
        and (_STRONG.match(line) or _WEAK.match(line)) is not None
        and len(line.split()) <= _MOST_VALUE_WORDS
        and line[-1:] not in ".;。；"
    )


class Body(NamedTuple):
    """The text that dedup compares: without its own section label and header lines.

    Attributes:
        text: as written.
        tokens: distinct, in order of first occurrence.
        carried: the tokens that carry the meaning of a rule, sorted (`guard.carries`).
        head: the header of a title page; "" for other texts.
    """

    text: str
    tokens: tuple[str, ...]
    carried: tuple[str, ...]
    head: str


class AnalysedText:
    """A text cut into words, tokens and terms, with its body for dedup; each part is computed on first use and kept.

    The parts depend on the text alone. Threads may share an instance: at worst two threads compute the same part.

    Args:
        text: the text as the source returned it.
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
        """The number of words, the distinct tokens and the search terms."""
        if self._reading is None:
            self._reading = read(self.text)
        return self._reading

    @property
    def body(self) -> Body:
        """The text that dedup compares."""
        if self._body is None:
            rest = body(self.text)
            body_tokens = self.reading.tokens if rest is self.text else tuple(dict.fromkeys(tokens(rest)))
            self._body = Body(rest, body_tokens, tuple(sorted(filter(carries, body_tokens))), head(self.text, rest))
        return self._body

    @property
    def marks(self) -> tuple[str, ...] | None:
        """The tokens that another text must also have to be merged with this one (`guard.marks`)."""
        if self._marks is None:
            self._marks = (marks(self.body.text),)
        return self._marks[0]

    @property
    def identity(self) -> str:
        """The hash of the normalised text, equal for texts that read the same; "" for a blank text."""
        if self._identity is None:
            plain = normalize(self.text)
            self._identity = content_sha256(plain) if plain else ""
        return self._identity

    @property
    def injection(self) -> tuple[str, ...]:
        """The kinds of injection signs in the text; () for none."""
        if self._injection is None:
            self._injection = injection_kinds(self.text)
        return self._injection


class Candidate:
    """A chunk under its identity (source_id, chunk_id), with its authority and the time at which its source answered.

    Args:
        analysed: analyses a text.
    """

    __slots__ = ("_analysed", "_label", "_text", "authority", "chunk", "key", "retrieved_at", "spec")

    def __init__(
        self,
        key: Key,
        chunk: Chunk,
        spec: SourceSpec,
        authority: EffectiveAuthority,
        retrieved_at: datetime,
        analysed: Callable[[str], AnalysedText],
    ) -> None:
        self.key, self.chunk, self.spec = key, chunk, spec
        self.authority, self.retrieved_at = authority, retrieved_at
        self._analysed = analysed
        self._text: AnalysedText | None = None
        self._label: AnalysedText | None = None

    @property
    def text(self) -> AnalysedText:
        """The analysed content, computed on first use."""
        if self._text is None:
            self._text = self._analysed(self.chunk.content)
        return self._text

    @property
    def label(self) -> AnalysedText:
        """The analysed label (`label_of`), computed on first use."""
        if self._label is None:
            self._label = self._analysed(label_of(self.chunk))
        return self._label

    @property
    def tier(self) -> int:
        """The authority tier under the manifest's ceiling."""
        return self.authority.tier

    def freshness(self, now: datetime) -> Freshness:
        """Return whether the content is still fresh."""
        return freshness(self.chunk, self.spec, now=now, retrieved_at=self.retrieved_at)

    def under(self, key: Key, chunk: Chunk) -> Candidate:
        """Return the candidate under another identity or with other scores; the text is the same."""
        return Candidate(key, chunk, self.spec, self.authority, self.retrieved_at, self._analysed)


def label_of(chunk: Chunk) -> str:
    """Return the text by which a chunk is identified and cited: title, headings, document id, section and reference."""
    named = (chunk.title, *chunk.heading_path, chunk.document_id, chunk.section, chunk.metadata.get("reference"))
    return " ".join(map(str, filter(None, named)))


def pool(
    answers: Iterable[tuple[SourceSpec, RawAnswer]], analysed: Callable[[str], AnalysedText] = AnalysedText
) -> tuple[list[Candidate], list[Notice]]:
    """Return the candidates of all answers, one per identity and sorted by it, and notices.

    A chunk without an id gets its text's hash as id. The same identity from two retrieval legs is one candidate with
    the scores of both. The same id with another text is another candidate: the text with the lowest hash keeps the id,
    the others get their hash appended. The result does not depend on the order of the answers.

    Args:
        analysed: analyses a text; may be a cache.
    """
    candidates: dict[Key, Candidate] = {}
    again: dict[Key, list[Candidate]] = {}
    for spec, answer in answers:
        declared, own = declared_authority(spec), spec.id
        for chunk in answer.chunks:
            source_id = chunk.source_id if chunk.source_id and spec.trust_document_metadata else own
            key = (source_id, chunk.chunk_id or content_sha256(chunk.content)[:32])
            authority = effective_authority(chunk, spec, declared)
            candidate = Candidate(key, chunk, spec, authority, answer.retrieved_at, analysed)
            if candidates.setdefault(candidate.key, candidate) is not candidate:
                again.setdefault(candidate.key, [candidates[candidate.key]]).append(candidate)
    notices: list[Notice] = []
    for key in sorted(again):
        texts = _by_text(again[key])
        candidates[key] = _joined(texts[0])
        for others in texts[1:]:
            _rename(_joined(others), candidates, again)
        if len(texts) > 1:
            message = f"source {key[0]!r} used the chunk id {key[1]!r} for {len(texts)} different texts; all are kept"
            detail = {"chunk_id": key[1], "texts": len(texts)}
            notices.append(Notice(NoticeCode.CHUNK_ID_REUSED, key[0], message, detail))
    return [candidates[key] for key in sorted(candidates)], notices


def _by_text(same: list[Candidate]) -> list[list[Candidate]]:
    """Group candidates of one identity by text, sorted by the texts' hashes."""
    texts: dict[str, list[Candidate]] = {}
    for candidate in same:
        texts.setdefault(candidate.chunk.content, []).append(candidate)
    return [texts[text] for text in sorted(texts, key=content_sha256)]


def _rename(candidate: Candidate, candidates: dict[Key, Candidate], again: dict[Key, list[Candidate]]) -> None:
    """Append the text's hash to a candidate's id. If a candidate already has that id, both are the same candidate."""
    source_id, chunk_id = candidate.key
    key = (source_id, f"{chunk_id}~{content_sha256(candidate.chunk.content)[:8]}")
    while key in candidates and candidates[key].chunk.content != candidate.chunk.content:
        key = (source_id, key[1] + "~")
    renamed = candidate.under(key, candidate.chunk)
    if key in again:
        again[key].append(renamed)  # handled later in the loop: it sorts after the id that it extends
    else:
        candidates[key] = _joined([candidates[key], renamed]) if key in candidates else renamed


def _joined(same: list[Candidate]) -> Candidate:
    """Return one candidate with the scores of all; of two scores with the same kind and scorer, the higher.

    Where the legs disagree about other fields, the least authoritative leg decides.
    """
    if len(same) == 1:
        return same[0]
    best: dict[tuple[str, str], Score] = {}
    for score in (score for candidate in same for score in candidate.chunk.scores):
        key = (score.kind.value, score.scorer or "")
        if key not in best or score.value > best[key].value:
            best[key] = score
    first = min(same, key=lambda candidate: (-candidate.tier, candidate.spec.id, repr(candidate.chunk)))
    return first.under(first.key, first.chunk._replace(scores=tuple(best[key] for key in sorted(best))))
