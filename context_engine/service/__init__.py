"""The service behind HTTP, MCP and Dify: answers, fetching, comparison, explanation and records."""
