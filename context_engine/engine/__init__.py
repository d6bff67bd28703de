"""The two stages in reading order; knows protocols only."""
