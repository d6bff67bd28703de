"""What adapter authors need: the source conformance suite and fakes."""
