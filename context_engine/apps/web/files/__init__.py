"""Pages that are kept as files: an answer and the access rules. They load and run nothing and need no extra."""
