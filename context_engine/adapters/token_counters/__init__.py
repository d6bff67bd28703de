"""Token counters by name: the approximate one, and those of real tokenizers whose files are on this machine."""

from context_engine.adapters.token_counters.by_name import COUNTERS, open_counter
from context_engine.adapters.token_counters.tiktoken import TiktokenCounter
from context_engine.adapters.token_counters.tokenizers import TokenizersCounter

__all__ = ["COUNTERS", "TiktokenCounter", "TokenizersCounter", "open_counter"]
