"""The engine behind HTTP."""
