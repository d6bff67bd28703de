"""Search a domain, and show the answer as a table, a page or an explanation."""
