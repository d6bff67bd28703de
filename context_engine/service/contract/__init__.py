"""The published forms of the RAG API, as pydantic models."""
