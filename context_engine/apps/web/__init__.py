"""Pages for people: one look for all of them, rendered by the service, without a request to the outside."""
