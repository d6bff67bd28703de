"""What is made of an answer: its parts, contexts, rankings of other chunks."""
