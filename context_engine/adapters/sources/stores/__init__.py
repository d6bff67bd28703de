"""What the stores that this package searches itself have in common: their rows, places, filters and options."""
