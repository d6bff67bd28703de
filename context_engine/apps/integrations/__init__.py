"""Retrievers for other frameworks: LangChain, LlamaIndex and Haystack, each with the extra of its name.

All ask the same `Knowledge`, an engine in this process or a server, and carry the same metadata.
"""
