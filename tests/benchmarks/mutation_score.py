"""How many small changes to the code of a folder do the folder's own fast tests notice?

    python tests/benchmarks/mutation_score.py context_engine/core/ranking [--sample 120] [--seed 1]
        [--only FILE.py ...] [--tests tests/unit/core/ranking ...] [--timeout 60] [--quick] [--list]

A mutant is the package with one change: a comparison or its boundary, `and` for `or`, a dropped or added `not`, a
constant one higher or lower, another operator, a returned None or 0, a deleted statement, a call replaced by its first
argument. The tests that ought to notice are the fast ones of the mirrored folder, here `tests/unit/core/ranking`.

The tree is copied to a temporary folder. The unmutated tests run once, to learn which test executes which line. Each
mutant then runs in a forked process with the tests that execute its line, quickest first, up to the first failure. If
all pass, the other tests that use its file follow (not with --quick): they may have read a cached value. A mutant that
runs into the time limit counts as caught.

Printed are the survivors as two lines of a diff, then how many were caught. Needs the extra `test`, and is much faster
with TMPDIR on a file system in memory.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from coverage import Coverage, CoverageData
from hypothesis import Phase, settings

sys.path.insert(0, str(Path(__file__).parent))

from mutants import Mutant, Mutants

CHECKOUT = Path(__file__).parents[2]
COPIED = ("context_engine", "dify_plugin", "config", "manifests", "docs", "tests", "pyproject.toml", "README.md")


class Watch:
    """A pytest plugin: the same generated examples in each run, the time of each test and, once, what it executes."""

    def __init__(self, coverage: Coverage | None) -> None:
        self.seconds, self._coverage = Counter[str](), coverage

    def pytest_sessionstart(self) -> None:
        phases = (Phase.explicit, Phase.generate)  # a counterexample need not be made small
        settings.register_profile("mutants", deadline=None, derandomize=True, database=None, phases=phases)
        settings.load_profile("mutants")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self._coverage:
            self._coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration


class Tests:
    """The fast tests of some folders in a copy of the tree, with the lines that each executes."""

    def __init__(self, root: Path, folder: Path, folders: Sequence[str]) -> None:
        self._root, self._log, facts, data = root, root / "log.txt", root / "facts.json", root / "coverage.data"
        os.environ["PYTHONPATH"] = str(root)

        def learn() -> int:
            known = set(sys.modules)
            coverage = Coverage(str(data), source=[str(root / folder)], config_file=False)
            coverage.start()
            watch = Watch(coverage)
            status = self._pytest(folders, watch)
            coverage.stop()
            coverage.save()
            places = {name: getattr(module, "__file__", "") or "" for name, module in sys.modules.items()}
            libraries = [name for name, place in places.items() if name not in known and "site-packages" in place]
            facts.write_text(json.dumps({"seconds": watch.seconds, "libraries": libraries}))
            return status

        if self._forked(learn, 3600):
            raise SystemExit(f"the unmutated tests fail\n{self._log.read_text()[-4000:]}")
        learnt = json.loads(facts.read_text())
        self._seconds: dict[str, float] = learnt["seconds"]
        print(f"{len(self._seconds)} tests pass unmutated in {sum(self._seconds.values()):.0f} s", flush=True)
        for name in learnt["libraries"]:  # imported here once, not anew for each mutant
            with suppress(Exception):
                importlib.import_module(name)
        sys.dont_write_bytecode = True
        executed = CoverageData(str(data))
        executed.read()
        self._lines = {name: executed.contexts_by_lineno(name) for name in executed.measured_files()}

    def notice(self, mutant: Mutant, options: argparse.Namespace) -> bool:
        """Return whether a test fails or does not end."""
        lines = self._lines.get(str(mutant.path), {})
        using = set().union(*lines.values()) & self._seconds.keys()
        first = set(lines.get(mutant.line, ()))
        if "" in first:  # executed at import: whoever imports the name may use it
            first, using = using or set(self._seconds), set(self._seconds)
        return self._fail(first, options) or (not options.quick and self._fail(using - first, options))

    def _fail(self, names: set[str], options: argparse.Namespace) -> bool:
        chosen = sorted(names & self._seconds.keys(), key=self._seconds.__getitem__)
        (self._root / "names.txt").write_text("\n".join(chosen))
        limit = options.timeout + 10 * sum(map(self._seconds.__getitem__, chosen))
        return bool(chosen) and self._forked(lambda: self._pytest(["@names.txt"], Watch(None)), limit) != 0

    def _pytest(self, arguments: Sequence[str], watch: Watch) -> int:
        os.chdir(self._root)
        sys.path.insert(0, str(self._root))
        options = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow and not benchmark"]
        return int(pytest.main([*options, *arguments], plugins=[watch]))

    def _forked(self, work: Callable[[], int], limit: float) -> int | None:
        """Return the exit status of `work` in a process of its own, None if it exceeds the limit in seconds."""
        child = os.fork()
        if not child:
            status = 70
            with suppress(BaseException), self._log.open("w") as log:
                os.setsid()
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
                status = work()
            os._exit(status)
        end, done, status = time.monotonic() + limit, 0, 0
        while not done and time.monotonic() < end:
            time.sleep(0.01)
            done, status = os.waitpid(child, os.WNOHANG)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # and what it started
        if not done:
            os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status) if done else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder of the package")
    parser.add_argument("--sample", type=int, default=120, help="how many mutants; 0 for all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", help="names of files of the folder")
    parser.add_argument("--tests", nargs="*", help="folders of tests, else the mirrored one")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for a mutant, beside ten times its tests'")
    parser.add_argument("--quick", action="store_true", help="only the tests that execute the changed line")
    parser.add_argument("--list", action="store_true", help="print the chosen mutants and run nothing")
    options = parser.parse_args()
    folder = options.folder.resolve().relative_to(CHECKOUT)
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary).resolve()
        for name in COPIED:
            copy = shutil.copytree if (CHECKOUT / name).is_dir() else shutil.copy2
            copy(CHECKOUT / name, root / name)
        paths = sorted(path for path in (root / folder).rglob("*.py") if not options.only or path.name in options.only)
        mutants = [mutant for path in paths for mutant in Mutants(path).found]
        if 0 < options.sample < len(mutants):
            mutants = sorted(random.Random(options.seed).sample(mutants, options.sample))
        if options.list:
            print("\n".join(mutant.difference(root) for mutant in mutants))
            return
        tests = Tests(root, folder, options.tests or [str(Path("tests/unit", *folder.parts[1:]))])
        total, caught = Counter(mutant.kind for mutant in mutants), Counter[str]()
        for number, mutant in enumerate(mutants, 1):
            text, stat = mutant.path.read_bytes(), mutant.path.stat()
            difference = mutant.difference(root)
            mutant.path.write_bytes(mutant.text())
            os.utime(mutant.path, (stat.st_atime, stat.st_mtime + number))  # else Python loads the old compiled file
            if tests.notice(mutant, options):
                caught[mutant.kind] += 1
            else:
                print(difference, flush=True)
            mutant.path.write_bytes(text)
            os.utime(mutant.path, (stat.st_atime, stat.st_mtime))
    for kind, count in sorted(total.items()):
        print(f"{kind:<12} {caught[kind]:>4} / {count}")
    share = caught.total() / max(total.total(), 1)
    print(f"{folder}: {caught.total()} of {total.total()} caught, {share:.0%} (seed {options.seed})")


if __name__ == "__main__":
    main()
