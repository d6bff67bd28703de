"""The record of searches: what is kept of each, a ledger that shows every change to it, and what an auditor asks of it.

values     what stands between the rooms
formats    the published formats: Merkle tree, tiles, signed notes, proofs (RFC 9162, C2SP)
record     from a search to its record and back; nothing here stores anything
ledger     the records in a database, appended and never changed
checks     whether a ledger is sound
review     replay, counterfactuals, drift, impact
recorder   what an engine hands its results to
"""
