"""Check a deployment: sources, models, adapters, privacy, audit, service."""
