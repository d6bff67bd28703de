"""What an auditor asks of a record."""
