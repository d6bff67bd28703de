"""The two stages in reading order; knows protocols only."""

from context_engine.engine.clock import SystemClock, TimeSortedIds
from context_engine.engine.engine import Engine
from context_engine.engine.recompute import recompute, stage_two_bytes

__all__ = ["Engine", "SystemClock", "TimeSortedIds", "recompute", "stage_two_bytes"]
