"""`context-engine eval`: measure retrieval, compare set-ups, gate, judge, tune."""

from __future__ import annotations

from context_engine.apps.cli.app import LazyGroup

eval_ = LazyGroup(
    "eval",
    "context_engine.apps.cli",
    {
        "compare": ("eval.run:compare", "Compare two run files on the same judgements."),
        "gate": ("eval.gate:gate", "Fail if a mean is below its floor or its baseline."),
        "judge": ("eval.judge:judge", "Show the chunks of a search and record your judgements."),
        "online": ("eval.online:online", "Compare two settings in use by the judgements of callers."),
        "run": ("eval.run:run", "Ask every question and measure what is returned."),
        "scope": ("eval.tune:scope", "Show what each scope threshold would keep and turn away."),
        "tune": ("eval.tune:tune", "Search settings by cross-validation over the questions."),
    },
    help="Measure retrieval on judged questions: run, compare, gate, judge, tune, scope.",
)
