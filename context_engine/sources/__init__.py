"""Adapters to knowledge bases."""
