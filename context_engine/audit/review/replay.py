"""Recompute a search from its record alone, and report the first field that differs and why."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from context_engine.audit.record.restored import Restored
from context_engine.core.context import from_result
from context_engine.core.engine import recompute, stage_two_bytes
from context_engine.core.models import EffectiveSettings, NoticeCode, RankingSettings, SearchResult, canonical_json
from context_engine.core.protocols import Mask, TokenCounter
from context_engine.core.text import content_sha256
from context_engine.errors import ContextEngineError


class _Absent:
    """Stands for a missing value."""

    def __repr__(self) -> str:
        return "(absent)"


_ABSENT: Final = _Absent()


class FirstDifference(NamedTuple):
    """The first place at which two values differ.

    Attributes:
        path: e.g. `chunks[2].final`.
        was, now: the values there, or None.
    """

    path: str
    was: Any
    now: Any


def first_difference(was: Any, now: Any, path: str = "") -> FirstDifference | None:
    """Return the first difference of two JSON values, None if they are equal.

    >>> first_difference({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]})
    FirstDifference(path='a[1].b', was=2, now=3)
    """
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        names = [*was, *(name for name in now if name not in was)]
        pairs = [(f"{path}.{name}" if path else str(name), name) for name in names]
        differences = (first_difference(was.get(name, _ABSENT), now.get(name, _ABSENT), where) for where, name in pairs)
        return next((difference for difference in differences if difference is not None), None)
    if isinstance(was, list) and isinstance(now, list):
        longest = range(max(len(was), len(now)))
        differences = (first_difference(_at(was, place), _at(now, place), f"{path}[{place}]") for place in longest)
        return next((difference for difference in differences if difference is not None), None)
    same = type(was) is type(now) and was == now
    return None if same else FirstDifference(path, _shown(was), _shown(now))


def _at(values: list[Any], place: int) -> Any:
    return values[place] if place < len(values) else _ABSENT


def _shown(value: Any) -> Any:
    return None if value is _ABSENT else value


_JUDGED: Final = frozenset((*RankingSettings.model_fields, "exact_first", "rerank_top_n", "strict_thresholds"))
"""Settings whose effect can be computed from a record; the others act before stage 2 or outside it."""

_IDENTITY: Final = ("source_id", "chunk_id")


class ReplayReason(StrEnum):
    """Why a recomputed search differs from its record."""

    ERASED = "erased"
    QUESTION_MASKED = "question_masked"
    RERANK_SCORES_MISSING = "rerank_scores_missing"
    CODE_VERSION = "code_version"
    RECORD_ALTERED = "record_altered"
    ANSWER_ALTERED = "answer_altered"


class ChangedSetting(NamedTuple):
    """A setting whose value has changed since.

    Attributes:
        was, now: the values, None if the setting did not exist.
        origin: origin of the present value.
        judged: whether its effect can be computed from the record.
    """

    key: str
    was: Any
    now: Any
    origin: str
    judged: bool


class ChangedScorer(NamedTuple):
    """The scorer of vectors in the embedded base: MODEL, or MODEL+ADAPTER.

    Attributes:
        was: the scorer of the recorded cosines.
        now: the scorer that is in force now; "" if none is.
    """

    was: str
    now: str


class ContextReplay(NamedTuple):
    """A recorded context, rebuilt.

    Attributes:
        identical: None if it could not be rebuilt.
        reason: why it could not, or why it differs; "" if identical.
    """

    record_id: str
    identical: bool | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The result of recomputing a recorded search.

    Attributes:
        identical: the published answer is the same to the byte, except for times, and so are the rebuilt contexts.
        difference: the first field that differs; None if none does or nothing could be computed.
        reason: why it differs; None if it does not.
        explanation: the reason as a sentence; "" if there is none.
        contexts: of the search.
        changed_settings: settings with other values now; None if the present settings were not given.
        answer_now: the first field that differs under the present settings; None if none does, or only settings changed
            whose effect cannot be computed from the record.
        changed_scorer: None if unchanged or unknown; its effect cannot be computed from the record.
    """

    search_id: str
    identical: bool
    difference: FirstDifference | None = None
    reason: ReplayReason | None = None
    explanation: str = ""
    contexts: tuple[ContextReplay, ...] = ()
    changed_settings: tuple[ChangedSetting, ...] | None = None
    answer_now: FirstDifference | None = None
    changed_scorer: ChangedScorer | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        out = asdict(self)
        for name in ("difference", "answer_now"):
            difference: FirstDifference | None = getattr(self, name)
            out[name] = None if difference is None else difference._asdict()
        out["contexts"] = [context._asdict() for context in self.contexts]
        out["changed_scorer"] = None if self.changed_scorer is None else self.changed_scorer._asdict()
        if self.changed_settings is not None:
            out["changed_settings"] = [setting._asdict() for setting in self.changed_settings]
        return out


def replay(
    recorded: SearchResult | Restored,
    *,
    code_version: str,
    recorded_by: str | None = None,
    published: Mapping[str, Any] | None = None,
    settings_now: Callable[[SearchResult], EffectiveSettings | None] | None = None,
    scorer_now: Callable[[SearchResult], ChangedScorer | None] | None = None,
    contexts: Sequence[Mapping[str, Any]] = (),
    counter: Callable[[str], TokenCounter] | None = None,
    mask: Mask | None = None,
) -> Replay:
    """Recompute stage 2 and the contexts of a recorded search; no source and no model is called.

    Args:
        recorded: a record that was read, or a saved result.
        recorded_by: the version that made the record; None: as the record says.
        published: the answer stored beside a saved result; None: none is.
        settings_now: returns the settings that the request would have now; None, or returning None: not compared.
        scorer_now: returns the present scorer if it differs; None: not compared.
        counter: returns a token counter by name; None: contexts are not rebuilt.
        mask: masks personal data, for contexts in which it was masked.
    """
    if isinstance(recorded, Restored):
        if recorded.result is None:
            return _erased(recorded)
        recorded_by, recorded = recorded_by or recorded.code_version, recorded.result
    result = recorded
    again = recompute(result)
    difference = None
    if stage_two_bytes(again) != stage_two_bytes(result):
        difference = first_difference(_published(result), _published(again))
    reason = None if difference is None else _reason(result, recorded_by, code_version)
    if difference is None and published is not None:
        difference = _answer_difference(result, published)
        same_version = recorded_by in (None, code_version)
        altered = ReplayReason.ANSWER_ALTERED if same_version else ReplayReason.CODE_VERSION
        reason = None if difference is None else altered
    made = tuple(_context(entry, again, counter, mask) for entry in contexts)
    replayed = Replay(
        search_id=result.search_id,
        identical=difference is None and all(context.identical is not False for context in made),
        difference=difference,
        reason=reason,
        explanation="" if reason is None else _EXPLANATIONS[reason].format(was=recorded_by, now=code_version),
        contexts=made,
        changed_scorer=None if scorer_now is None else scorer_now(result),
    )
    now = None if settings_now is None else settings_now(result)
    return replayed if now is None else _with_present_settings(replayed, result, again, now)


_EXPLANATIONS: Final[Mapping[ReplayReason, str]] = {
    ReplayReason.QUESTION_MASKED: "personal data in the question was masked before it was recorded "
    "(mask_stored_queries), so the ranking cannot be repeated",
    ReplayReason.RERANK_SCORES_MISSING: "scores of the reranker are missing from the record",
    ReplayReason.CODE_VERSION: "the record was made by version {was}, this is version {now}",
    ReplayReason.RECORD_ALTERED: "the same version computes another answer from this record: 'audit verify' checks "
    "whether it was altered",
    ReplayReason.ANSWER_ALTERED: "the record gives the same answer to the byte, but the answer beside it was altered",
}


def _erased(restored: Restored) -> Replay:
    texts: dict[str, int] = {}
    for part in restored.missing:
        texts[f"{part.kind} {part.why}"] = texts.get(f"{part.kind} {part.why}", 0) + 1
    explanation = "; ".join(text if count == 1 else f"{count} times: {text}" for text, count in texts.items())
    return Replay(
        search_id=str(restored.entry.get("id")), identical=False, reason=ReplayReason.ERASED, explanation=explanation
    )


def _published(result: SearchResult) -> dict[str, Any]:
    """Return the recorded bytes as the published form in its order, each chunk's identity first."""
    published: dict[str, Any] = json.loads(stage_two_bytes(result).decode("utf-8", "surrogatepass"))
    published["chunks"] = [{**{name: chunk[name] for name in _IDENTITY}, **chunk} for chunk in published["chunks"]]
    return {name: published[name] for name in result.to_dict()}


def _answer_difference(result: SearchResult, published: Mapping[str, Any]) -> FirstDifference | None:
    """Return the first field in which an answer published beside its record differs from the record."""
    shown = json.loads(json.dumps(result.to_dict(demo=published.get("demo") is True), default=str))
    return first_difference({name: value for name, value in published.items() if name != "record"}, shown)


def _reason(result: SearchResult, was: str | None, now: str) -> ReplayReason:
    if result.settings.values.mask_stored_queries:
        return ReplayReason.QUESTION_MASKED
    scored = ((chunk.source_id, chunk.chunk_id) for chunk in result.chunks if chunk.rerank_score is not None)
    if any(key not in result.rerank_scores for key in scored):
        return ReplayReason.RERANK_SCORES_MISSING
    return ReplayReason.RECORD_ALTERED if was in (None, now) else ReplayReason.CODE_VERSION


def _context(
    entry: Mapping[str, Any], result: SearchResult, counter: Callable[[str], TokenCounter] | None, mask: Mask | None
) -> ContextReplay:
    """Return whether a rebuilt context is as its entry says."""
    record_id = str(entry.get("id"))
    if entry.get("masked") and mask is None:
        return ContextReplay(record_id, None, "personal data was masked in it, and no mask is available")
    if counter is None:
        return ContextReplay(record_id, None, "no token counter is available")
    try:
        made = from_result(
            result,
            counter=counter(entry["counter"]),
            budget=entry["budget"],
            form=entry["form"],
            nonce=entry["nonce"],
            mask=mask,
            part=entry.get("part", 1),
        )
    except (ContextEngineError, KeyError) as error:
        return ContextReplay(record_id, None, str(error))
    if content_sha256(made.text) == entry.get("sha256"):
        return ContextReplay(record_id, True)
    return ContextReplay(record_id, False, f"its text has {made.tokens} tokens; {entry.get('tokens')} were recorded")


def _with_present_settings(
    replayed: Replay, result: SearchResult, again: SearchResult, now: EffectiveSettings
) -> Replay:
    """Add the settings changed since, and their effect on the answer."""
    changed = _changed(result.settings, now)
    judged = any(setting.judged for setting in changed)
    return replace(replayed, changed_settings=changed, answer_now=_answer_now(result, again, now) if judged else None)


def _changed(was: EffectiveSettings, now: EffectiveSettings) -> tuple[ChangedSetting, ...]:
    before, after = was.to_dict(), now.to_dict()
    nothing = {"value": None, "origin": ""}
    pairs = ((key, before.get(key, nothing), after.get(key, nothing)) for key in {**before, **after})
    return tuple(
        ChangedSetting(key, old["value"], new["value"], new["origin"], key in _JUDGED)
        for key, old, new in pairs
        if canonical_json(old["value"]) != canonical_json(new["value"])
    )


def _answer_now(result: SearchResult, again: SearchResult, now: EffectiveSettings) -> FirstDifference | None:
    """Return the first field of the answer that the present settings change."""
    other = replace(result, settings=now)
    if not now.values.reranking_enabled:
        notices = tuple(notice for notice in result.notices if notice.code is not NoticeCode.RERANK_FAILED)
        other = replace(other, rerank_scores={}, notices=notices)
    try:
        changed = recompute(other)
    except ContextEngineError as error:
        return FirstDifference("error", None, str(error))
    was, then = _published(again), _published(changed)
    return first_difference(_without_settings(was), _without_settings(then))


def _without_settings(published: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in published.items() if name != "settings"}
