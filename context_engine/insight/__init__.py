"""What the knowledge and its record say about themselves: contradictions between documents."""
