"""Callers as identity providers describe them."""
