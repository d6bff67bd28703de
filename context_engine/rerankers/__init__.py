"""Adapters to models that read query and text together."""
