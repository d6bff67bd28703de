"""A process that searches forks: its children search at once, over Dify and the embedded base, and disturb nobody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from context_engine.apps.cli import main
from context_engine.testing import FakeDataset, FakeDify, FakeDocument

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork"),
    pytest.mark.slow,  # each starts an interpreter
]

DATASETS = [
    FakeDataset(name, documents=[FakeDocument(name, [f"A material change of {name} needs an approval."])])
    for name in ("alpha", "beta", "gamma", "delta", "epsilon")
]
COMMON = """
import faulthandler, functools, gc, json, os, random, signal, sys, threading, time, traceback, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads: that is what is tried here

from context_engine.core.models import SearchRequest, Status

from context_engine.wiring.build import build_engine
from context_engine.wiring.setup import load_setup

setup = load_setup()
engine = build_engine(setup)

def search(number):
    # a query of its own, so that nothing comes from the cache
    result = engine.search(SearchRequest(query=f"material change approval {number}", domain="NPA"))
    found = {source.source_id: source.chunks for source in result.sources}
    good = result.status is Status.COMPLETE and found == {"kb": 5, "register": 1}
    if not good:
        print(result.sources, file=sys.stderr)
    return good

def child(number):
    faulthandler.dump_traceback_later(18)  # shows where it waits
    signal.alarm(20)  # a lock that nobody will ever release ends it
    try:
        good = all([search(f"child {number} {each}") for each in range(3)])
    except BaseException:
        traceback.print_exc()
        good = False
    sys.stderr.flush()
    os._exit(0 if good else 9)

def ended(pid):
    return os.waitpid(pid, 0)[1] == 0
"""
LOCKED = (
    COMMON
    + """
assert search("first")
inner = {type(threading.Lock()), type(threading.RLock())}

def ours(name):
    # the lock of this module is taken by the fork itself
    return str(name).startswith("context_engine.") and name != "context_engine.secrecy"

kinds = [thing for thing in gc.get_objects() if ours(type(thing).__module__)]
names = sorted({type(thing).__qualname__ for thing in kinds if type(getattr(thing, "_lock", None)) in inner})
locks = [thing._lock for thing in kinds if type(getattr(thing, "_lock", None)) in inner]
values = [value for name, module in list(sys.modules.items()) if ours(name) for value in list(vars(module).values())]
classes = {value for value in values if isinstance(value, type) and ours(value.__module__)}
members = [value for kind in classes for value in list(vars(kind).values())]
cached = [value for value in members if isinstance(value, functools.cached_property)]
values += [vars(value).get("lock") for value in cached]  # Python 3.11 has one in each
locks += [value for value in values if type(value) in inner]
held, go = threading.Event(), threading.Event()

def hold():
    for lock in locks:
        lock.acquire()
    held.set()
    go.wait()
    for lock in locks:
        lock.release()

threading.Thread(target=hold, daemon=True).start()
held.wait()
pid = os.fork()
if pid == 0:
    child(0)
good = ended(pid)
go.set()
print(json.dumps({"good": good, "parent": search("last"), "locks": names}))
"""
)
BUSY = (
    COMMON
    + """
stop, bad, made = threading.Event(), [], [0]

def always(thread):
    number = 0
    while not stop.is_set():
        number += 1
        if not search(f"parent {thread} {number}"):
            bad.append((thread, number))
        made[0] += 1

threads = [threading.Thread(target=always, args=(number,)) for number in range(6)]
for thread in threads:
    thread.start()
while made[0] < 20:
    time.sleep(0.001)
children = []
draw = random.Random(7)
for number in range(20):
    time.sleep(draw.random() * 0.03)
    pid = os.fork()
    if pid == 0:
        child(number)
    children.append(pid)
    if len(children) % 4 == 0:
        good = [ended(one) for one in children[-4:]]
        if not all(good):
            bad.append(("child", number, good))
stop.set()
for thread in threads:
    thread.join()
print(json.dumps({"bad": bad, "made": made[0]}))
"""
)
OPEN_FILES = (
    COMMON
    + """
def opened():
    return len(os.listdir("/proc/self/fd"))

assert search("first")
before, most, stop, answers = opened(), [0], threading.Event(), []

def watch():
    while not stop.is_set():
        most[0] = max(most[0], opened())
        time.sleep(0.0005)

watcher = threading.Thread(target=watch)
watcher.start()
for wave in range(4):
    threads = [threading.Thread(target=lambda n=n: answers.append(search(f"{wave} {n}"))) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
stop.set()
watcher.join()
print(json.dumps({"before": before, "most": most[0], "after": opened(), "answers": answers.count(True)}))
"""
)


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[tuple[Path, dict[str, str], FakeDify]]:
    """A domain over five datasets and the embedded base."""
    with FakeDify(DATASETS) as dify:
        ids = ", ".join(dify.dataset_ids.values())
        (tmp_path / "config").mkdir()
        (tmp_path / "manifests").mkdir()
        (tmp_path / "docs").mkdir()
        (tmp_path / "config/connections.yaml").write_text(
            f"dify: {{base_url: '{dify.base_url}', api_key: '${{KEY}}', max_connections: 8}}", "utf-8"
        )
        (tmp_path / "manifests/npa.yaml").write_text(
            f"""
version: 1
domain: NPA
settings: {{source_concurrency: 64, source_timeout_s: 60, deadline_s: 60, stage2_top_k: 20, min_relevance_score: 0,
  dedup_method: "off"}}
sources:
  - {{id: kb, type: bank_sop, adapter: dify, connection: dify, dataset_ids: [{ids}]}}
  - {{id: register, type: system_of_record, documents: [{{include: "*.md"}}]}}
""",
            "utf-8",
        )
        text = "# Register\n\nEvery material change needs an approval of the register.\n"
        (tmp_path / "docs/register.md").write_text(text, "utf-8")
        env = {**os.environ, "HOME": str(tmp_path), "KEY": dify.api_key, "CONTEXT_ENGINE_DATA_DIR": str(tmp_path / "d")}
        env.pop("CONTEXT_ENGINE_CONFIG_DIR", None)
        arguments = ["ingest", "docs", "--domain", "NPA", "--source", "register", "--config-dir", str(tmp_path)]
        here = Path.cwd()
        os.chdir(tmp_path)
        try:
            done = CliRunner(env=env).invoke(main, arguments[:-2])
        finally:
            os.chdir(here)
        assert done.exit_code == 0, done.output
        yield tmp_path, env, dify


def run(script: str, folder: Path, env: dict[str, str]) -> Any:
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def test_a_child_searches_though_every_lock_was_held_by_another_thread_at_the_fork(bank: Any) -> None:
    folder, env, _ = bank
    found, errors = run(LOCKED, folder, env)
    assert found["good"], errors
    assert found["parent"]
    kinds = {"Bulkhead", "DaemonExecutor", "FairQueue", "AnswerCache", "ApiClient", "Pool", "Viewer", "Lock"}
    assert kinds <= set(found["locks"])


def test_children_forked_while_six_threads_search_all_answer_and_so_does_the_parent(bank: Any) -> None:
    folder, env, _ = bank
    found, errors = run(BUSY, folder, env)
    assert found["bad"] == [], errors
    assert found["made"] >= 20


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system does not show a process's open files")
def test_open_files_stay_below_the_bound_that_is_told(bank: Any) -> None:
    folder, env, dify = bank
    dify.inject("delay", endpoint="retrieve", delay_s=0.01)
    found, _ = run(OPEN_FILES, folder, env)
    assert found["answers"] == 200
    # while 50 search: 8 connections to Dify (max_connections); the base and its log for each search, and one file for
    # all of them; before that, one connection of each kind was open. Afterwards 16 of the base's stay open, and of the
    # others SQLite keeps the base's file for the next ones, since closing it would end the locks of those 16.
    assert 0 < found["most"] - found["before"] <= 8 + 2 * 50 + 1, found
    assert found["after"] - found["before"] <= 8 + 16 + 50 + 1, found
