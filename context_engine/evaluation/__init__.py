"""Measure retrieval: any set-up on any judgements, compared, tuned and reported (docs/guides/tuning.md)."""
