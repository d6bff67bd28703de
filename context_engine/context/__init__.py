"""From a ranked result to what a language model reads, under a token budget."""
