"""A result of the engine as an answer of the RAG API."""
