"""Load, chunk, write."""
