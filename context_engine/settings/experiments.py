"""Experiments: each caller of a domain is always served one of two settings, chosen by a hash of the caller."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from context_engine.core.models import Experiment, SearchRequest, SearchSettings
from context_engine.settings.layers import Layer, Setting, config_layer

Arm = Literal["a", "b"]
_NOTHING: Final[Layer] = MappingProxyType({})
_ARM: Final = "experiment_arm"


def arm_of(experiment: str, caller: str) -> Arm:
    """Return the arm of a caller: the same for the whole experiment, and independent of that in others.

    Args:
        experiment: its name, which salts the hash.
        caller: who asks, as the request names them.
    """
    return "b" if hashlib.sha256(f"{experiment}\x00{caller}".encode()).digest()[0] & 1 else "a"


def asking_person(request: SearchRequest) -> str:
    """Return who asks: the person a program asks for, else the authenticated caller; "" if unknown."""
    return request.caller.on_behalf_of or request.principal.id or request.caller.principal or ""


class _RunningExperiment(NamedTuple):
    name: str
    arms: Mapping[Arm, Layer]


class Experiments:
    """The layers of settings of the declared experiments.

    Args:
        declared: by name.
        origin: where they are declared, for messages.

    Raises:
        ConfigError: an arm sets what a search cannot have its own value of, or a value out of range.
    """

    def __init__(self, declared: Mapping[str, Experiment], origin: str) -> None:
        self._running = {
            experiment.domain: _RunningExperiment(
                name, {"a": _layer(name, "a", experiment.a, origin), "b": _layer(name, "b", experiment.b, origin)}
            )
            for name, experiment in declared.items()
        }

    def layer(self, request: SearchRequest) -> Layer:
        """Return the settings of the caller's arm; none for an unknown caller, or without an experiment."""
        running, caller = self._running.get(request.domain), asking_person(request)
        if running is None or not caller:
            return _NOTHING
        return running.arms[arm_of(running.name, caller)]


def _layer(name: str, arm: Arm, settings: Mapping[str, Any], origin: str) -> Layer:
    key = f"experiments.{name}.{arm}"
    layer = config_layer(settings, f"experiment {name}", file=origin, key=key, model=SearchSettings)
    return {**layer, _ARM: Setting(f"{name}/{arm}", f"experiment {name}")}
