"""Jobs: work over many documents that lasts days, with a memory, a budget and documents of its own."""
