"""Builds engines from configuration and manifests; the only place that turns names into adapters."""

from context_engine.wiring.adapters import (
    ACCESS_POLICIES,
    RERANKERS,
    SOURCES,
    find_adapter,
    installed,
    load_source_adapter,
)
from context_engine.wiring.build import SourceOpener, build_engine, source_opener
from context_engine.wiring.check import CheckReport, check
from context_engine.wiring.examine import ExaminedSource, adapter_advice, examine_source, fetching_engine, listed_chunks
from context_engine.wiring.functions import SPEAKS_FOR_ITSELF, FunctionEngines
from context_engine.wiring.models import RerankerChoice
from context_engine.wiring.report import ShownSetting, StageDifference, changed, diff_stages, show
from context_engine.wiring.scope import (
    DomainCalibration,
    calibrate_domain,
    calibrate_domains,
    scope_in_force,
    use_adapter,
)
from context_engine.wiring.setup import Setup, access_policy, load_setup, usable_setup
from context_engine.wiring.sinks import configured_base, embedded_places, open_sink, sink_names

__all__ = [
    "ACCESS_POLICIES",
    "RERANKERS",
    "SOURCES",
    "SPEAKS_FOR_ITSELF",
    "CheckReport",
    "DomainCalibration",
    "ExaminedSource",
    "FunctionEngines",
    "RerankerChoice",
    "Setup",
    "ShownSetting",
    "SourceOpener",
    "StageDifference",
    "access_policy",
    "adapter_advice",
    "build_engine",
    "calibrate_domain",
    "calibrate_domains",
    "changed",
    "check",
    "configured_base",
    "diff_stages",
    "embedded_places",
    "examine_source",
    "fetching_engine",
    "find_adapter",
    "installed",
    "listed_chunks",
    "load_setup",
    "load_source_adapter",
    "open_sink",
    "scope_in_force",
    "show",
    "sink_names",
    "source_opener",
    "usable_setup",
    "use_adapter",
]
