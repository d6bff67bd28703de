"""Personal data in texts and results, replaced by keyed pseudonyms such as `[IBAN 7f3a90b1c2d4]`.

A pseudonym is 12 hexadecimal digits of HMAC-SHA-256 over kind and value. Under one key a value has the same pseudonym
wherever and however it is written. Without the key nobody can compute the value, or test guesses. Among a million
values, two share a pseudonym with a probability of .002. Ids, paths and addresses that identify a chunk, a document or
a place stay unchanged, so that citations open.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from context_engine.core.models import (
    MAX_QUERY_CHARS,
    And,
    Chunk,
    Condition,
    Filter,
    Member,
    Not,
    Notice,
    Or,
    PreparedQuery,
    RankedChunk,
    SearchRequest,
    SearchResult,
    SourceStatus,
)
from context_engine.core.policy.injection_patterns import invisible
from context_engine.core.protocols import Mask, Masker, PersonalData
from context_engine.errors import ContextEngineError, MaskingError

_LENGTH: Final = 12
_LETTER: Final = re.compile(r"[a-f]")
_KIND: Final = re.compile(r"[A-Z][A-Z0-9_-]{0,31}")
_PSEUDONYM: Final = re.compile(rf"(\[[A-Z][A-Z0-9_-]{{0,31}} (?=[0-9]*[a-f])[0-9a-f]{{{_LENGTH}}}\])")


class PseudonymMask:
    """Replaces the values that maskers find by pseudonyms; a `Mask`. Safe for several threads if the maskers are.

    Args:
        maskers: each reads the whole text.
        key: the secret key of the pseudonyms.
        allowed: values that are not masked, in any spelling that a masker recognises; "@bank.example" for every address
            of a mail domain.
    """

    def __init__(self, maskers: Sequence[Masker], key: bytes, allowed: Collection[str] = ()) -> None:
        self._maskers, self._key = tuple(maskers), key
        self._domains = tuple(_plain(entry) for entry in allowed if entry.startswith("@"))
        self._values = frozenset(value for entry in allowed for value in self._spellings(entry))

    def __call__(self, text: str) -> str:
        """Return a text with every value that is not allowed replaced.

        Existing pseudonyms are skipped. Replacing a value may expose another value next to it, so the text is read
        until nothing more is found; masking the result again does not change it. A passage in invisible characters,
        which a model can read, is shown in ⟦brackets⟧ if it holds a value.

        Raises:
            MaskingError: a masker failed.
        """
        text = self._unhidden(text)
        while (masked := self._once(text)) != text:
            text = masked
        return text

    def pseudonym(self, kind: str, value: str) -> str:
        """Return the pseudonym of a value. It contains a letter, so that it cannot be taken for a number."""
        digest = hmac.new(self._key, f"{kind}\0{value}".encode(), "sha256").hexdigest()
        windows = (digest[start : start + _LENGTH] for start in range(len(digest) - _LENGTH + 1))
        return f"[{kind} {next((window for window in windows if _LETTER.search(window)), 'a' * _LENGTH)}]"

    def _unhidden(self, text: str) -> str:
        """Return a text in which invisible passages that hold a value to mask are shown."""
        parts, end = [], 0
        for start, until, says in invisible(text):
            if start >= end and self._once(says) != says:
                parts += [text[end:start], f"⟦{says}⟧"]
                end = until
        return "".join([*parts, text[end:]])

    def _once(self, text: str) -> str:
        pieces = _PSEUDONYM.split(text)
        return "".join(piece if place % 2 else self._masked(piece) for place, piece in enumerate(pieces))

    def _masked(self, text: str) -> str:
        if not text:
            return text
        parts, end = [], 0
        for data in _apart(place for masker in self._maskers for place in _found(masker, text)):
            if not self._is_allowed(data, text):
                parts += [text[end : data.start], self.pseudonym(data.kind, data.value)]
                end = data.end
        return "".join([*parts, text[end:]])

    def _is_allowed(self, place: PersonalData, text: str) -> bool:
        if place.value in self._values or _plain(text[place.start : place.end]) in self._values:
            return True
        return bool(self._domains) and place.value.endswith(self._domains)

    def _spellings(self, entry: str) -> Iterator[str]:
        """Yield an allowed value as written and as the maskers read it, a bare number also as a telephone number."""
        yield _plain(entry)
        for text in (entry, f"Tel. {entry}"):
            yield from (place.value for masker in self._maskers for place in _found(masker, text))


def _found(masker: Masker, text: str) -> list[PersonalData]:
    """Return a masker's checked findings; errors of the masker may hold the text and are not repeated."""
    try:
        places = list(masker.find(text))
    except ContextEngineError:
        raise
    except Exception as error:
        raise MaskingError(f"a masker ({type(masker).__name__}) failed with {type(error).__name__}") from error
    for place in places:
        if not (0 <= place.start < place.end <= len(text) and _KIND.fullmatch(place.kind)):
            named = f"[{place.start}, {place.end}) of {len(text)} characters as {place.kind!r}"
            raise MaskingError(f"a masker ({type(masker).__name__}) named {named}, which cannot be masked")
    return places


def _apart(places: Iterable[PersonalData]) -> list[PersonalData]:
    """Return places in the order of the text; overlapping places are joined and named after the longest."""
    out: list[PersonalData] = []
    longest = 0
    for place in sorted(places, key=lambda place: (place.start, -place.end)):
        if not out or place.start >= out[-1].end:
            out.append(place)
            longest = place.end - place.start
            continue
        name = out[-1]
        if place.end - place.start > longest:
            name, longest = place, place.end - place.start
        out[-1] = name._replace(start=out[-1].start, end=max(out[-1].end, place.end))
    return out


def _plain(text: str) -> str:
    return "".join(text.casefold().split())


_IDENTITIES: Final = frozenset(
    (
        "chunk_id",
        "content_sha256",
        "dataset_id",
        "document_id",
        "document_version",
        "file",
        "file_name",
        "filename",
        "path",
        "search_id",
        "segment_id",
        "source_file",
        "source_id",
        "url",
    )
)


def masked_chunk(chunk: Chunk, mask: Mask) -> Chunk:
    """Return a chunk with text, title, headings and metadata masked; its span still refers to the unmasked document."""
    return masked_labels(chunk, mask)._replace(content=mask(chunk.content))


def masked_labels(chunk: Chunk, mask: Mask) -> Chunk:
    """Return a chunk with everything masked except its text."""
    return chunk._replace(
        title=_masked(chunk.title, mask),
        section=_masked(chunk.section, mask),
        heading_path=_masked(chunk.heading_path, mask),
        metadata=_masked(chunk.metadata, mask),
        extra=_masked(chunk.extra, mask),
    )


def with_masked_chunks(result: SearchResult, mask: Mask) -> SearchResult:
    """Return a result whose chunks, question, caller, notices and errors are masked, for use by a model.

    The sources' answers (`raw`) stay unmasked and must not go to a model.
    """
    result = with_masked_query(result, mask)
    return replace(
        result,
        caller=replace(result.caller, **_masked(asdict(result.caller), mask)),
        chunks=tuple(_masked_ranked(chunk, mask) for chunk in result.chunks),
        sources=tuple(_masked_status(source, mask) for source in result.sources),
        notices=tuple(_masked_notice(notice, mask) for notice in result.notices),
    )


def as_kept(result: SearchResult, mask: Mask | None) -> SearchResult:
    """Return the result to store: its question is masked if the domain sets `mask_stored_queries`."""
    if mask is None or not result.settings.values.mask_stored_queries:
        return result
    return with_masked_query(result, mask)


def with_masked_query(result: SearchResult, mask: Mask) -> SearchResult:
    """Return a result with its question masked everywhere.

    If anything was masked, everything derived from the question (terms, codes, other wordings, statistics) is left out,
    as it may hold a part of a number.
    """
    request = None if result.request is None else masked_request(result.request, mask)
    query = mask(result.query)
    if query == result.query and request == result.request:
        return result
    prepared = result.prepared
    return replace(
        result,
        query=query,
        request=request,
        prepared=None if prepared is None else _masked_words(prepared, mask),
        notices=tuple(_masked_notice(notice, mask) for notice in result.notices),
        raw=tuple(replace(answer, statistics=None, unknown_words=None) for answer in result.raw),
    )


def masked_request(request: SearchRequest, mask: Mask) -> SearchRequest:
    """Return a request with its question and the values of its filters masked."""
    query = mask(request.query)[:MAX_QUERY_CHARS]
    filters = None if request.filters is None else _masked_filter(request.filters, mask)
    if query == request.query and filters == request.filters:
        return request
    return replace(request, query=query, filters=filters)


def _masked_words(prepared: PreparedQuery, mask: Mask) -> PreparedQuery:
    return PreparedQuery(
        original=mask(prepared.original),
        text=mask(prepared.text),
        language=prepared.language,
        corrected=prepared.corrected,
        notices=tuple(_masked_notice(notice, mask) for notice in prepared.notices),
        refiner=prepared.refiner,
    )


def _masked_filter(tree: Filter, mask: Mask) -> Filter:
    match tree:
        case And(parts):
            return And(tuple(_masked_filter(part, mask) for part in parts))
        case Or(parts):
            return Or(tuple(_masked_filter(part, mask) for part in parts))
        case Not(part):
            return Not(_masked_filter(part, mask))
        case Condition(field, op, value):
            return Condition(field, op, _masked({field: value}, mask)[field])


def _masked_status(source: SourceStatus, mask: Mask) -> SourceStatus:
    return replace(
        source,
        notices=tuple(_masked_notice(notice, mask) for notice in source.notices),
        error=_masked(source.error, mask),
        problem=mask(source.problem),
    )


def _masked_notice(notice: Notice, mask: Mask) -> Notice:
    return notice._replace(message=mask(notice.message), detail=_masked(notice.detail, mask))


def _masked_ranked(ranked: RankedChunk, mask: Mask) -> RankedChunk:
    return replace(
        ranked,
        chunk=masked_chunk(ranked.chunk, mask),
        also_in=tuple(_masked_member(member, mask) for member in ranked.also_in),
        provenance=replace(ranked.provenance, extra=_masked(ranked.provenance.extra, mask)),
    )


def _masked_member(member: Member, mask: Mask) -> Member:
    return member._replace(title=_masked(member.title, mask), section=_masked(member.section, mask))


def _masked(value: Any, mask: Mask) -> Any:
    """Return a JSON value with every text and number in it masked. A masker reads a field's name together with its
    value.
    """
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        if not value:
            return value
        return {key: item if key in _IDENTITIES else _masked_field(str(key), item, mask) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_masked(item, mask) for item in value) if type(value) in (list, tuple) else value
    if isinstance(value, int) and not isinstance(value, bool):
        shown = mask(str(value))
        return value if shown == str(value) else shown
    return value


def _masked_field(name: str, value: Any, mask: Mask) -> Any:
    """Return a field's value masked as in "name: value": digits after the word "phone" are a telephone number."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        return _masked(value, mask)
    before = f"{name}: "
    shown = mask(f"{before}{value}")
    if not shown.startswith(before):
        return _masked(value, mask)
    return value if shown == f"{before}{value}" else shown[len(before) :]
