"""The Dify plugin as a package: checked against Dify's rules, packed, signed, and its settings on one line."""

from context_engine.apps.packaging.check import CheckResult, check, check_files
from context_engine.apps.packaging.findings import PluginFinding
from context_engine.apps.packaging.pack import Packed, PackOptions, pack

__all__ = ["CheckResult", "PackOptions", "Packed", "PluginFinding", "check", "check_files", "pack"]
