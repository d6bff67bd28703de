"""`context-engine audit`: the record of searches, and proofs of it; for operators."""

from __future__ import annotations

from context_engine.apps.cli.app import LazyGroup

audit = LazyGroup(
    "audit",
    "context_engine.apps.cli",
    {
        "drift": ("audit.drift:drift", "Compare what an answer showed with its sources now."),
        "erase": ("audit.removal:erase", "Delete questions or texts; every proof stays valid."),
        "export": ("audit.export:export", "Write the records as JSON lines, CSV or log tiles."),
        "head": ("audit.proofs:head", "Write a checkpoint of the log: its size and root."),
        "impact": ("audit.impact:impact", "List the answers that used a document, a text or a chunk."),
        "keygen": ("audit.proofs:keygen", "Make a signing key for a log."),
        "list": ("audit.records:list_records", "List records, the newest first."),
        "prove": ("audit.proofs:prove", "Write the proof that a record stands in the log."),
        "prune": ("audit.removal:prune", "Remove the oldest records as retention allows."),
        "quality": ("audit.quality:quality", "Tell whether quality has fallen below a domain's own past."),
        "rehearse": ("audit.rehearse:rehearse", "Ask recorded questions under a draft: which answers change?"),
        "replay": ("audit.replay:replay", "Compute a recorded answer again from its record alone."),
        "report": ("audit.cases:report", "Write one case as a single file."),
        "sample": ("audit.cases:sample", "Write a binder of cases, drawn so nobody can pick them."),
        "show": ("audit.show:show", "Show everything that was recorded under an id."),
        "stats": ("audit.stats:stats", "Count records, and what chat models used and cost."),
        "subscriptions": ("audit.subscriptions:subscriptions", "List, check and cancel subscriptions."),
        "verify": ("audit.verify:verify", "Check that the ledger is as it was written."),
        "why": ("audit.why:why", "Tell why a chunk was shown or not, and what changes that."),
    },
    help="Show, check and prove the record of searches; for operators if there is an access.yaml.",
)
