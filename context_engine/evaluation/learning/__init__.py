"""Learning a bank's language from its own questions: an adapter over the vectors of its embedding model."""
