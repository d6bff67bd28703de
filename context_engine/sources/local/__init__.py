"""The embedded knowledge base: SQLite holds the truth, tantivy the derived index."""
