"""What every program that serves the engine shares: HTTP, MCP, compare mode, the RAG API as a library."""
