"""Two-stage retrieval with authority, provenance and audit for enterprise knowledge bases."""

__version__ = "0.1.0"
