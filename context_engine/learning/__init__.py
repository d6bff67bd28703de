"""What is learnt of a store's own content: the scope threshold and vector adapters, over any store that offers it."""
