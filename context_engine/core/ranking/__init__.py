"""The rules of stage 2: pure functions on values."""
