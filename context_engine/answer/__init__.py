"""From the passages of a search to a checked answer, extractive or by a chat model."""
