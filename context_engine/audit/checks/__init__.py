"""Whether a ledger is sound, and where it is not."""
