"""An evaluation as plain values, for JSON."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from context_engine.core.models import messages
from context_engine.evaluation.account import latency, stages, tier_shares, token_efficiency, troubles_of
from context_engine.evaluation.compared import Compared
from context_engine.evaluation.score import Scored, gold_fates

SCHEMA_VERSION: Final = "1.0"


def summary(compared: Compared) -> dict[str, Any]:
    """Return the whole evaluation, JSON-ready; schema version 1.0."""
    ours, baseline, session = compared.ours, compared.baseline, compared.session
    out: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "questions": len(session.questions),
        "judged": len(session.qrels),
        "notes": list(messages(session.notices)),
        **_set_up(ours, compared),
        "baseline": None if baseline is None else _set_up(baseline, compared),
        "difference": None,
        "groups": {
            name: {
                value: {"questions": len(held), "measures": {one: ours.mean(one, held) for one in ours.measures}}
                for value, held in groups.items()
            }
            for name, groups in compared.groups.items()
        },
        "per_question": {name: dict(held) for name, held in ours.scores.items()},
    }
    if baseline is not None:
        out["difference"] = {measure: ours.against(baseline, measure)._asdict() for measure in ours.measures}
    return out


def _set_up(one: Scored, compared: Compared) -> dict[str, Any]:
    out: dict[str, Any] = {
        "name": one.name,
        "measures": {measure: one.interval(measure)._asdict() for measure in one.measures},
    }
    run = one.run
    if run is None:
        return out
    depth = run.depth
    fates = gold_fates(run, compared.session.qrels)
    plain = compared.without_authority if one is compared.ours else None
    return out | {
        "top_k": depth.top_k,
        "top_k_by_domain": dict(depth.by_domain) or None,
        "gold_answers": {"total": len(fates), "by_end": dict(Counter(fate.stage for fate in fates))},
        "latency_ms": latency(run)._asdict(),
        "stages": [stage._asdict() for stage in stages(run)],
        "context_tokens": token_efficiency(run, compared.session.corpus)._asdict(),
        "tier_shares": dict(tier_shares(run.read(), depth.top_k)),
        "without_authority": None
        if plain is None
        else {
            "tier_shares": dict(tier_shares(run.read(authority=False), depth.top_k)),
            "measures": {measure: plain.mean(measure) for measure in plain.measures},
        },
        "embedder": None if run.embedder is None else run.embedder.to_dict(),
        "failed_searches": sum(answer.failed for answer in run.answers),
        "troubles": [trouble._asdict() for trouble in troubles_of(answer.troubles for answer in run.answers)],
        "settings": {name: dict(held) for name, held in run.settings.items()},
    }
