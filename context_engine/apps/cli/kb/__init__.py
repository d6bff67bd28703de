"""Look after the embedded knowledge base."""
