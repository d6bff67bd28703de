"""Who may search what: check, matrix, prove, policy export."""
