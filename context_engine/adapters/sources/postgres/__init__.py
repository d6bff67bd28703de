"""A knowledge base in PostgreSQL: the adapter `postgres`."""

from context_engine.adapters.sources.postgres.adapter import PostgresSettings, check_postgres, open_postgres

__all__ = ["PostgresSettings", "check_postgres", "open_postgres"]
