"""Access, filters, validity, trust, masking and injection: pure functions on values."""
