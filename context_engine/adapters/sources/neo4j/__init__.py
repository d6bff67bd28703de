"""A knowledge base in Neo4j: the adapter `neo4j`."""

from context_engine.adapters.sources.neo4j.adapter import Neo4jSettings, check_neo4j, open_neo4j

__all__ = ["Neo4jSettings", "check_neo4j", "open_neo4j"]
