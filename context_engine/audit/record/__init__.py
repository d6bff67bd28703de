"""From a search to its record and back. Pure."""
