"""Check whether a provenance tag is complete, fresh, and consistent with its text and the ranking rule.

The checks, in this order:

- tag: the seven keys and nothing else, each of its type.
- text: `extra.content_sha256` is the SHA-256 of the text; noted if only the tag was saved.
- authority: type and tier agree with each other and with the fields beside the tag.
- score: rag_score = relevance_weight * relevance + authority_weight * boost within 0.0001, with the boost of the tier.
- fresh: fetched_at + ttl_seconds is not before the given moment; an expired text is noted but does not fail.
- order: within one search the scores do not rise, and no text appears twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from context_engine.core.models import TIER_OF, TIERS, Settings, SourceType, TrustClass, to_moment, utc_text
from context_engine.core.policy.tag_forms import TaggedText, TagReading
from context_engine.core.text import content_sha256

TOLERANCE: Final = 1e-4
"""Scores are written with four decimals; their rounding errors add up to less than this."""

CHECKS: Final = ("tag", "text", "authority", "score", "fresh", "order")
_KEYS: Final = ("source_id", "source_type", "authority_tier", "trust_class", "fetched_at", "ttl_seconds", "extra")


class CheckState(StrEnum):
    """The outcome of a check: fine, wrong, or noteworthy but not wrong."""

    OK = "ok"
    FAILED = "failed"
    NOTED = "noted"


class TagFinding(NamedTuple):
    """The outcome of one check; the message is empty if the check passed."""

    state: CheckState
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedText:
    """One text with the findings of its checks.

    Attributes:
        number: place in the answer, 1-based.
        findings: by the name of the check, all of `CHECKS`.
    """

    number: int
    source_id: str
    chunk_id: str
    findings: Mapping[str, TagFinding]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(finding.state is not CheckState.FAILED for finding in self.findings.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the checks as a dict, ready for JSON."""
        checks = {
            name: {"state": str(finding.state), "message": finding.message} for name, finding in self.findings.items()
        }
        return {
            "number": self.number,
            "source_id": self.source_id,
            "chunk_id": self.chunk_id,
            "ok": self.ok,
            "checks": checks,
        }


def check_tags(reading: TagReading, *, at: datetime) -> list[CheckedText]:
    """Check every text of a saved answer.

    Args:
        at: the moment for which freshness is checked, timezone-aware.
    """
    seen: set[tuple[str, str, str]] = set()
    checked: list[CheckedText] = []
    previous: _Numbers | None = None
    for number, text in enumerate(reading.texts, start=1):
        tag: Mapping[str, Any] = text.tag or {}
        numbers = _numbers(text)
        order = _order(previous, numbers, tag, seen)
        outcomes = (
            _complete(text.tag),
            _text(text, tag),
            _authority(text, tag),
            _score(text, tag, numbers, reading.settings),
            _fresh(tag, at),
            order,
        )
        source_id, chunk_id = str(tag.get("source_id", "")), str(_extra(tag).get("chunk_id", ""))
        findings = dict(zip(CHECKS, outcomes, strict=True))
        checked.append(CheckedText(number=number, source_id=source_id, chunk_id=chunk_id, findings=findings))
        previous = numbers
    return checked


def _failed(*problems: str) -> TagFinding:
    message = "; ".join(problem for problem in problems if problem)
    return TagFinding(CheckState.FAILED, message) if message else TagFinding(CheckState.OK)


def _extra(tag: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = tag.get("extra")
    return extra if isinstance(extra, Mapping) else {}


def _complete(tag: Mapping[str, Any] | None) -> TagFinding:
    if tag is None:
        return _failed("there is no _provenance")
    missing = [key for key in _KEYS if key not in tag]
    more = sorted(str(key) for key in tag if key not in _KEYS)
    wrong = [f"{key} {problem}, got {tag[key]!r}" for key in _KEYS if key in tag and (problem := _type(key, tag[key]))]
    return _failed(
        f"missing: {', '.join(missing)}" if missing else "",
        f"not part of a tag: {', '.join(more)}" if more else "",
        *wrong,
    )


def _type(key: str, value: Any) -> str:
    """Return the problem with the value of a key; "" if there is none."""
    if key == "source_id":
        return "" if isinstance(value, str) and value else "must be text"
    if key == "source_type":
        return "" if value in list(SourceType) else "is no source type"
    if key == "trust_class":
        return "" if value in list(TrustClass) else "must be TRUSTED or UNTRUSTED"
    if key == "authority_tier":
        return "" if _whole(value) and value in TIERS else "must be a whole number from 1 to 5"
    if key == "ttl_seconds":
        return "" if _whole(value) and value >= 0 else "must be a whole number of seconds"
    if key == "fetched_at":
        good = isinstance(value, str) and value.endswith("Z") and to_moment(value) is not None
        return "" if good else "must be UTC ISO 8601 ending in Z"
    return "" if isinstance(value, Mapping) else "must be a mapping"


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text(text: TaggedText, tag: Mapping[str, Any]) -> TagFinding:
    if text.tag_alone:
        return TagFinding(CheckState.NOTED, "the tag stands alone: whether its text is unchanged cannot be verified")
    if text.content is None:
        return _failed("there is no text in 'content'")
    stated = _extra(tag).get("content_sha256")
    if not isinstance(stated, str):
        return _failed("extra.content_sha256 is missing: the text cannot be verified")
    return _failed("" if stated == content_sha256(text.content) else "the text is not the one the tag was made for")


def _authority(text: TaggedText, tag: Mapping[str, Any]) -> TagFinding:
    kind, tier = tag.get("source_type"), tag.get("authority_tier")
    expected = next((TIER_OF[source_type] for source_type in SourceType if source_type == kind), None)
    agree = expected is not None and expected == tier
    beside = [
        f"{key} is {text.item[key]!r} beside the tag and {tag[key]!r} in it"
        for key in ("source_id", "source_type", "authority_tier", "trust_class")
        if key in tag and text.item.get(key) not in (None, tag[key])
    ]
    return _failed("" if agree else f"source_type {kind!r} and tier {tier!r} do not agree", *beside)


class _Numbers(NamedTuple):
    """The scores of a text, its tier and its search; None if not stated."""

    final: float | None
    relevance: float | None
    boost: float | None
    tier: Any
    search_id: Any


def _numbers(text: TaggedText) -> _Numbers:
    tag: Mapping[str, Any] = text.tag or {}
    extra = _extra(tag)
    final, relevance = text.item.get("_rag_score"), text.item.get("_relevance_score")
    return _Numbers(
        _number(extra.get("rag_score") if final is None else final),
        _number(extra.get("relevance") if relevance is None else relevance),
        _number(text.item.get("_authority_boost")),
        tag.get("authority_tier"),
        extra.get("search_id"),
    )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _score(text: TaggedText, tag: Mapping[str, Any], numbers: _Numbers, settings: Settings) -> TagFinding:
    extra, tier = _extra(tag), numbers.tier
    if numbers.final is None or numbers.relevance is None:
        return _failed("the score or the relevance is missing")
    if not _whole(tier) or tier not in TIERS:
        return _failed("the tier is missing: the boost is not known")
    demoted = settings.expired == "demote" and "expired" in (extra.get("flags") or ())
    trusted = str(tag.get("trust_class")).upper() != TrustClass.UNTRUSTED
    boost = settings.authority_boosts.of(5 if demoted else tier) if trusted else 0.0
    expected = settings.relevance_weight * numbers.relevance + settings.authority_weight * boost
    formula = (
        f"{settings.relevance_weight:g} × {numbers.relevance:g} + {settings.authority_weight:g} × {boost:g} "
        f"= {expected:.4f}, not {numbers.final:g}"
    )
    return _failed(
        "" if numbers.boost is None or _same(numbers.boost, boost) else f"boost {numbers.boost:g}, tier has {boost:g}",
        "" if _same(expected, numbers.final) else formula,
        _both("rag_score", extra.get("rag_score"), numbers.final),
        _both("relevance", extra.get("relevance"), numbers.relevance),
    )


def _same(left: float, right: float) -> bool:
    return abs(left - right) <= TOLERANCE


def _both(name: str, in_tag: Any, beside: float) -> str:
    number = _number(in_tag)
    return (
        "" if number is None or _same(number, beside) else f"{name} is {beside:g} beside the tag and {number:g} in it"
    )


def _fresh(tag: Mapping[str, Any], at: datetime) -> TagFinding:
    fetched, ttl = tag.get("fetched_at"), tag.get("ttl_seconds")
    moment = to_moment(fetched) if isinstance(fetched, str) else None
    if moment is None or not _whole(ttl) or ttl is None or ttl < 0:
        return _failed("fetched_at or ttl_seconds cannot be read")
    if _extra(tag).get("fetched_at_basis") == "retrieved":
        return TagFinding(CheckState.NOTED, "age unknown: fetched_at is the time of the retrieval")
    if moment > at:
        return TagFinding(CheckState.NOTED, f"fetched after {utc_text(at)}")
    if (at - moment).total_seconds() > ttl:
        return TagFinding(CheckState.NOTED, f"expired: fetched {fetched}, fresh for {_span(ttl)}")
    return TagFinding(CheckState.OK)


def _span(seconds: int) -> str:
    for unit, name in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit and seconds % unit == 0:
            return f"{seconds // unit} {name}"
    return f"{seconds} seconds"


def _order(
    previous: _Numbers | None, numbers: _Numbers, tag: Mapping[str, Any], seen: set[tuple[str, str, str]]
) -> TagFinding:
    """Compare a text with the previous one if both come from one search. Scores equal to four decimals may be in either
    order."""
    identity = (str(numbers.search_id), str(tag.get("source_id")), str(_extra(tag).get("chunk_id")))
    twice = identity in seen and bool(_extra(tag).get("chunk_id"))
    seen.add(identity)
    above = previous if previous and previous.search_id == numbers.search_id else None
    wrong = ""
    if above and above.final is not None and numbers.final is not None and numbers.final > above.final:
        wrong = f"score {numbers.final:g} ranks below {above.final:g}"
    return _failed("the same chunk appears twice" if twice else "", wrong)
