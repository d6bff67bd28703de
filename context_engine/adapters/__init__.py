"""The outside world: sources, models and tokenizers, each behind a protocol of the core."""
