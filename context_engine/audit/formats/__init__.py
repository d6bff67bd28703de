"""The published formats of transparency logs: RFC 6962 and 9162 trees, C2SP tiles, notes and proofs. Pure."""
