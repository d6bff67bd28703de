"""The laws in real processes: a hang delays neither other calls nor exit, and a forked child starts anew."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

GEVENT = "from gevent import monkey; monkey.patch_all()\n"
COMMON = """
import os, threading, time
from context_engine.core.concurrency.calls import Bulkhead, Overdue
from context_engine.core.concurrency.calls import DeadlineCaller, DeadlineExceeded, call_within
from context_engine.core.concurrency.calls import submit_all, wait_all
from context_engine.errors import RefinerError

never = threading.Event()
hung, good = Bulkhead("hung"), Bulkhead("good")
model = DeadlineCaller("model", "refine", time.monotonic, RefinerError)

def refused(call, *errors):
    try:
        call()
    except errors as error:
        return str(error)

due = time.monotonic() + 0.2
first = hung.submit(never.wait, lambda: due - time.monotonic())
assert wait_all([first, good.submit(lambda: 1, lambda: 30.0)], [0.2, 30.0]) == [False, True]
assert "within" in refused(lambda: model.call(never.wait, 0.1, nothing="nothing"), RefinerError)
assert refused(lambda: call_within(0.1, never.wait, name="call"), DeadlineExceeded) is not None
assert wait_all(submit_all([never.wait] * 3, width=2, name="call"), [0.1] * 3) == [False] * 3
"""
HANG = (
    COMMON
    + """
answers = []

def caller():
    for number in range(20):
        assert refused(lambda: hung.submit(never.wait, lambda: 30.0), Overdue) == "still busy with an overdue call"
        future = good.submit(lambda: number, lambda: 30.0, limit=64)
        assert wait_all([future], [30.0]) == [True]
        answers.append(future.result())

threads = [threading.Thread(target=caller) for _ in range(20)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert sorted(answers) == sorted(list(range(20)) * 20)
print("done")
"""
)
FORK = (
    COMMON
    + """
assert refused(lambda: hung.submit(never.wait, lambda: 30.0), Overdue)
pid = os.fork()
if pid == 0:
    import signal
    signal.alarm(20)  # a lock or a thread that is not there ends it
    bad = 1
    try:
        futures = [hung.submit(lambda: 1, lambda: 30.0, limit=1), *submit_all([lambda: 1] * 4, width=2, name="call")]
        values = [wait_all(futures, [30.0] * 5), model.call(lambda: 1, 30.0, nothing="nothing")]
        bad = 0 if values == [[True] * 5, 1] else 2
    finally:
        os._exit(bad)
assert os.waitpid(pid, 0)[1] == 0
assert refused(lambda: hung.submit(never.wait, lambda: 30.0), Overdue)  # the parent's call hangs as before
print("done")
"""
)


def run(script: str) -> None:
    done = subprocess.run(  # would hang for good, so the limit is the test
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script], capture_output=True, text=True, timeout=200
    )
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("patch", ["", GEVENT], ids=["threads", "gevent"])
def test_neither_other_calls_nor_process_exit_wait_for_one_that_hangs(patch: str) -> None:
    if patch:
        pytest.importorskip("gevent")
    run(patch + HANG)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_calls_what_hangs_in_its_parent() -> None:
    run(FORK)
