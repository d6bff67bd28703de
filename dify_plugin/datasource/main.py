"""The plugin's process: `python -m main`, started by Dify's plugin daemon in this folder."""

from importlib.util import find_spec

from dify_plugin import DifyPluginEnv, Plugin

if find_spec("context_engine") is None:
    command = "context-engine plugin pack --plugin-dir dify_plugin/datasource"
    raise SystemExit(f"this package lacks the folder context_engine: pack it with '{command}'")

plugin = Plugin(DifyPluginEnv(MAX_REQUEST_TIMEOUT=120))

if __name__ == "__main__":
    plugin.run()
