"""Filters, time and trust: what may be returned; pure functions on values."""
