"""The rules of stage 2, one algorithm a file; pure functions on values."""
