"""Make calls in daemon threads, bounded and each with a deadline; reset state in a forked child."""
