"""The only place that turns names into adapters: from configuration and manifests to an engine."""

from context_engine.wiring.adapters import RERANKERS, SOURCES, find_adapter, installed
from context_engine.wiring.build import RerankerChoice, Setup, build_engine, load_setup, source_opener
from context_engine.wiring.check import CheckReport, check
from context_engine.wiring.functions import SPEAKS_FOR_ITSELF, FunctionEngines
from context_engine.wiring.report import Shown, StageDifference, changed, diff_stages, show

__all__ = [
    "RERANKERS",
    "SOURCES",
    "SPEAKS_FOR_ITSELF",
    "CheckReport",
    "FunctionEngines",
    "RerankerChoice",
    "Setup",
    "Shown",
    "StageDifference",
    "build_engine",
    "changed",
    "check",
    "diff_stages",
    "find_adapter",
    "installed",
    "load_setup",
    "show",
    "source_opener",
]
