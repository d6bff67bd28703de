"""The questions that an auditor asks about a record."""
