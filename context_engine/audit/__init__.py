"""The audit of searches: their records, a tamper-evident ledger of them, and the questions of an auditor.

values     values exchanged between the packages below
formats    published formats: Merkle tree, tiles, signed notes, proofs (RFC 9162, C2SP)
record     from a search to its record and back, without storage
ledger     the records in a database, append-only
checks     verification of a ledger
review     replay, counterfactuals, drift, impact
recorder   writes an engine's results to a ledger
"""
