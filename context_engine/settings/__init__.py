"""Loads files and environment into the values of `models`: settings with their origins, connections, stages."""

from context_engine.settings.connections import Connection, Connections
from context_engine.settings.data_dir import find_data_dir
from context_engine.settings.layers import ALIASES, Layer, Setting, call_layer, config_layer, effective_settings
from context_engine.settings.load import Config, load_config, read_config
from context_engine.settings.paths import ConfigPaths, find_config
from context_engine.settings.resolver import SettingsResolver

__all__ = [
    "ALIASES",
    "Config",
    "ConfigPaths",
    "Connection",
    "Connections",
    "Layer",
    "Setting",
    "SettingsResolver",
    "call_layer",
    "config_layer",
    "effective_settings",
    "find_config",
    "find_data_dir",
    "load_config",
    "read_config",
]
