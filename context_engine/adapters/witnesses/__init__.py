"""Witnesses of the audit ledger: servers of others that cosign its checkpoints where they see that it only grows."""

from context_engine.adapters.witnesses.tlog_witness import TlogWitness, open_witnesses

__all__ = ["TlogWitness", "open_witnesses"]
