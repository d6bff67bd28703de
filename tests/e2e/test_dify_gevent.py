"""The source inside a process that gevent has patched, as the plugin runtime is: many searches at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
from gevent import monkey
monkey.patch_all()
import gevent
from context_engine.core.engine.search_plan import SystemClock
from context_engine.core.models import SourceQuery, SourceSpec
from context_engine.settings.connections import Connection
from context_engine.adapters.sources.dify import DifySource
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.testing import FakeDataset, FakeDify, FakeDocument

datasets = [FakeDataset(f"D{n}", documents=[FakeDocument("L", [f"The approval limit {n}."])]) for n in range(6)]
with FakeDify(datasets) as dify:
    dify.inject("delay", endpoint="retrieve", delay_s=0.05)
    connection = Connection(base_url=dify.base_url, api_key=dify.api_key)
    spec = SourceSpec(id="s", type="bank_sop", adapter="dify", connection="c", settings={"cache_ttl_s": 0},
                      dataset_ids=tuple(dify.dataset_id(f"D{n}") for n in range(6)))
    source = DifySource(spec, Workspace(lambda: connection, SystemClock()), SystemClock())
    ask = lambda n: source.search(SourceQuery(text=f"approval limit {n}", domain="NPA", top_k=10, timeout_s=100.0))
    jobs = [gevent.spawn(ask, n) for n in range(12)]
    gevent.joinall(jobs, timeout=100)
    print([(len(job.value.chunks), len(job.value.failures)) for job in jobs], dify.most_busy)
    source.close()
"""


@pytest.mark.slow
def test_many_searches_at_once_under_gevent() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    answers, busy = done.stdout.strip().rsplit(" ", 1)
    assert answers == str([(6, 0)] * 12)
    assert 1 < int(busy) <= 4, "calls run at once, and no more than the connections allow"
