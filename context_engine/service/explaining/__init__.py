"""How an answer came to be, for people and models."""
