"""Measure retrieval: any set-up on any judgements, compared, tuned and reported. How to work with it: docs/guides/tuning.md."""
