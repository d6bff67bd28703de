"""The service and its pages need the extra `server` alone: no package of another extra is imported with them."""

from __future__ import annotations

import subprocess
import sys

import pytest

OTHERS = ("psycopg", "redis", "mcp", "numpy", "onnxruntime", "pypdfium2", "phonenumbers", "tiktoken")
PROGRAM = f"""
import sys
sys.modules.update(dict.fromkeys({OTHERS!r}))
import context_engine.apps.server.app, context_engine.apps.server.workers, context_engine.apps.web.site
"""


@pytest.mark.slow
def test_the_service_and_its_pages_need_no_other_extra() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
