"""Async adapters and rerankers in a process that gevent has patched, as the plugin runtime is."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
from gevent import monkey
monkey.patch_all()
import asyncio, gevent
from context_engine.core.concurrency.awaiting import awaited
from context_engine.errors import AllSourcesFailed
from context_engine.rag import create_rag_pipeline

ended, most = [], []
def row(query):
    return {"content": f"The approval limit {query}", "chunk_id": query, "relevance_score": 0.9}

async def rows(query, domain, top_k):
    most.append(1)
    await asyncio.sleep(0.05)
    ended.append(len(most))
    return [row(query)]

async def in_a_thread(query, domain, top_k):
    return [await asyncio.to_thread(row, query)]

async def hanging(query, domain, top_k):
    try:
        await asyncio.sleep(60)
    finally:
        ended.append("cancelled")

def own_loop():
    async def waits():
        await asyncio.sleep(0.02)
        await asyncio.sleep(0.02)
        return "own loop"
    return asyncio.run(waits())

with create_rag_pipeline({"source_timeout_s": 20.0}) as pipeline:
    ask = lambda n, adapter=rows: pipeline.retrieve(f"limit {n}", options={"adapter": adapter})[0]["chunk_id"]
    jobs = [gevent.spawn(ask, n) for n in range(12)]
    beside = gevent.spawn_later(0.01, own_loop)
    gevent.joinall([*jobs, beside], timeout=60)
    print([job.value for job in jobs] == [f"limit {n}" for n in range(12)], beside.value, ended[0] > 1)
    jobs = [gevent.spawn(ask, n, in_a_thread) for n in range(12)]
    gevent.joinall(jobs, timeout=60)
    print([job.value for job in jobs] == [f"limit {n}" for n in range(12)])
    try:
        pipeline.retrieve("limit", options={"adapter": hanging, "source_timeout_s": 0.05})
    except AllSourcesFailed as error:
        gevent.sleep(0.1)
        print("no answer within" in str(error), ended[-1])
    async def handler():
        return ask(7)
    print(asyncio.run(handler()))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info >= (3, 14), reason="asyncio treats the threads of gevent as a single one")
def test_async_adapters_run_at_once_under_gevent_beside_loops_of_others() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["True own loop True", "True", "True cancelled", "limit 7"], done.stderr
