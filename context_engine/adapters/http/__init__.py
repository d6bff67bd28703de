"""One way out: how every server is asked over HTTP."""
