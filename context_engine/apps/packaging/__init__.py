"""The Dify plugin as a package: checked against Dify's rules, packed, signed, and its settings on one line."""

from context_engine.apps.packaging.check import CheckResult, check, check_files
from context_engine.apps.packaging.findings import Finding
from context_engine.apps.packaging.pack import Packed, PackOptions, pack

__all__ = ["CheckResult", "Finding", "PackOptions", "Packed", "check", "check_files", "pack"]
