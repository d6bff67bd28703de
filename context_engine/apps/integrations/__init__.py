"""Adapters for other frameworks, each with the extra of its name.

There are retrievers for LangChain, LlamaIndex and Haystack, and the agentic workflow as a graph of LangGraph. All
retrievers ask the same `Knowledge`, an engine in this process or a server, and carry the same metadata.
"""
