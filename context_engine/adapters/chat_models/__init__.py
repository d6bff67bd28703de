"""Chat models behind a server, in the forms of two APIs: OpenAI's, which most servers speak, and Anthropic's.

Neither needs its vendor's library. Another API is another `Wire` of `ServerChat`.
"""
