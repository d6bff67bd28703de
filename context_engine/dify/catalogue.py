"""What can be searched: domains, their sources, and how these are."""

from __future__ import annotations

from context_engine.dify.plugin_settings import PluginSetup

__all__ = ["domain_titles"]


def domain_titles(plugin: PluginSetup) -> list[tuple[str, str]]:
    """Return (name, title to show) of each domain, sorted; a demo says so."""
    registry = plugin.setup.registry
    label = "DEMO " if plugin.demo else ""
    titles = {name: registry.domain(name).title for name in registry.names if name not in registry.broken}
    return [(name, f"{label}{name} – {titles[name]}" if titles.get(name) else label + name) for name in registry.names]
