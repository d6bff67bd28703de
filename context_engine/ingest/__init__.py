"""Ingestion: load files, cut documents into chunks, write them to a sink."""
