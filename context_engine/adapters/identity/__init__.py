"""Who calls, as identity providers say it."""
