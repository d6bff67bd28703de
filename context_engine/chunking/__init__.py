"""Documents cut by their type; pure functions on text."""
