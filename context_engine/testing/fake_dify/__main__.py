"""Serve the demo bank, or an empty workspace, as a Dify: `python -m context_engine.testing.fake_dify --port 5001`."""

from __future__ import annotations

import argparse
import sys
import threading

from context_engine.testing.fake_dify import FakeDify


def main() -> None:
    """Serve until interrupted; base URL, key and dataset ids go to standard output."""
    parser = argparse.ArgumentParser(prog="python -m context_engine.testing.fake_dify", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: any free port (default)")
    parser.add_argument("--api-key", help="random if not given")
    parser.add_argument("--dify-version", default="1.12.1")
    parser.add_argument("--empty", action="store_true", help="start without datasets; written data are lost at the end")
    parser.add_argument("--indexing-s", type=float, default=0.05, help="seconds until a new document is indexed")
    options = parser.parse_args()
    make = FakeDify if options.empty else FakeDify.demo
    arguments = {"port": options.port, "api_key": options.api_key, "version": options.dify_version}
    with make(**arguments, indexing_s=options.indexing_s) as dify:
        sys.stdout.write(f"base_url: {dify.base_url}\napi_key: {dify.api_key}\ndatasets:\n")
        sys.stdout.writelines(f"  {identity}  # {name}\n" for name, identity in dify.dataset_ids.items())
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
