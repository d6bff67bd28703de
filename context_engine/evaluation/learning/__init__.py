"""Learn from judged questions: an adapter over the embedding model's vectors, and a blend of scores."""
