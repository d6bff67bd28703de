"""An answer beside its baseline, as it is published."""
