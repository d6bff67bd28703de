"""Calls beside the caller: in daemon threads, bounded, each with a deadline; and what a forked child forgets."""
