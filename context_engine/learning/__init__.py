"""Learn from a store's content: its scope threshold and vector adapters, for any store that offers them."""
