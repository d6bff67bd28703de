"""Adapters to models that turn text into vectors."""
