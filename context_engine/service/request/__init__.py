"""A request of the RAG API as a search of the engine."""
