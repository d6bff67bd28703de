"""Builds engines from configuration and manifests; the only place that turns names into adapters."""
