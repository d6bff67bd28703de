"""`context-engine kb`: the embedded knowledge base."""

from __future__ import annotations

from context_engine.apps.cli.app import LazyGroup

kb = LazyGroup(
    "kb",
    "context_engine.apps.cli",
    {
        "adapter": ("kb.adapter:adapter", "List and switch the adapters that were learnt for a domain."),
        "adopt": ("kb.upkeep:adopt", "Take over the base of a configuration that was moved here."),
        "calibrate": ("kb.upkeep:calibrate", "Calibrate the scope threshold of every domain."),
        "conflicts": ("kb.conflicts:conflicts", "List documents of a domain that contradict each other."),
        "copy": ("kb.copy:copy", "Copy documents and vectors to another adapter's store."),
        "gaps": ("kb.gaps:gaps", "Show what is asked and not answered, and what is never shown."),
        "glossary": ("kb.glossary:glossary", "Print a draft glossary of the acronyms in the documents."),
        "rebuild": ("kb.upkeep:rebuild", "Rebuild the index and outdated vectors."),
        "remove": ("kb.upkeep:remove", "Remove all documents of a source or a namespace."),
        "repartition": ("kb.upkeep:repartition", "Move documents to the partitions of their access rules."),
        "stats": ("kb.upkeep:stats", "Show what the base holds."),
        "verify": ("kb.upkeep:verify", "Check that rows are intact and each is indexed once."),
    },
    help="Look after the embedded knowledge base.",
)
