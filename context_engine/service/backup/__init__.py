"""Backup and restore of a deployment: its base, its ledger, its tokens and costs, and its configuration."""
