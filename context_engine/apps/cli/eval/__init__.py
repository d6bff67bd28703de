"""Measure retrieval: run, compare, gate, judge, tune, scope."""
