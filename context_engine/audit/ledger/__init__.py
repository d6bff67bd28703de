"""The ledger: records in a database, under a Merkle tree."""
