"""How far work is, on stderr: a bar or a spinner at a terminal, a line elsewhere, and the file that takes long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from context_engine.apps.cli.console import note, progress_console
from context_engine.apps.web.inert import clean

if TYPE_CHECKING:  # only a terminal needs rich's bars
    from rich.console import Console
    from rich.progress import Progress, Task
    from rich.text import Text

_SLOW_S: Final = 2.0
_TICK_S: Final = 0.25


@contextmanager
def progress_bar(title: str, *, quiet: bool = False) -> Iterator[Callable[[int, int, str], None]]:
    """Yield a function of (files done, files in all, name) that shows a bar on stderr; nothing if never called.

    A file that takes longer than two seconds is named: behind the bar, or on a separate line if there is no bar.

    Args:
        quiet: show nothing where there is no terminal.
    """
    console = progress_console()
    at = _At()
    if not console.is_terminal:
        if quiet:
            yield lambda _done, _total, _name: None
            return
        with _telling(at):
            yield at.noted(title)
        return
    bar = _bar(at, console)
    tasks: list[Any] = []

    def show(done: int, total: int, name: str) -> None:
        if not tasks:
            bar.start()
            tasks.append(bar.add_task(title, total=total))
        at.go(name)
        bar.update(tasks[0], completed=done, total=total)

    try:
        yield show
    finally:
        bar.stop()


@contextmanager
def busy(title: str, *, quiet: bool = False) -> Iterator[None]:
    """Show the title of work that has no count: behind a spinner with its time at a terminal, else on a line.

    Args:
        quiet: show it only at a terminal, and only if the work takes longer than two seconds.
    """
    console = progress_console()
    if not console.is_terminal:
        if not quiet:
            note(title)
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    spinner = Progress(*columns, console=console, transient=True)
    spinner.add_task(title, total=None)
    late = threading.Timer(_SLOW_S if quiet else 0.0, spinner.start)
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()
        late.join()
        spinner.stop()


class _At:
    """The file that a run is reading, and since when."""

    def __init__(self) -> None:
        self._file = ("", 0.0)
        self._titled = False

    def go(self, name: str) -> None:
        """Note that a file is begun; "" at the end."""
        self._file = (name, time.monotonic())

    def noted(self, title: str) -> Callable[[int, int, str], None]:
        """Return a function of progress that writes the title, once."""

        def show(_done: int, _total: int, name: str) -> None:
            if not self._titled:
                self._titled = True
                note(title)
            self.go(name)

        return show

    def slow(self) -> tuple[str, float] | None:
        """Return the file and when it was begun if that is long ago."""
        name, since = self._file
        return (name, since) if name and time.monotonic() - since > _SLOW_S else None


def _bar(at: _At, console: Console) -> Progress:
    """Return a bar with the number of files, the time, and the name of a file that takes long."""
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class SlowFile(ProgressColumn):
        """The name of a file that takes long, clipped to the width."""

        def render(self, task: Task) -> Text:
            slow = at.slow()
            return Text(clean(slow[0]) if slow else "", "dim", overflow="ellipsis", no_wrap=True)

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.completed}/{task.total}"))
    return Progress(*columns, TimeElapsedColumn(), SlowFile(), console=console, transient=True)


@contextmanager
def _telling(at: _At) -> Iterator[None]:
    """Name each file that takes long in a line, once."""
    ended = threading.Event()

    def tell() -> None:
        shown = None
        while not ended.wait(_TICK_S):
            slow = at.slow()
            if slow and slow != shown:
                shown = slow
                note(f"{slow[0]} takes longer than {_SLOW_S:g} s …")

    telling = threading.Thread(target=tell, daemon=True)
    telling.start()
    try:
        yield
    finally:
        ended.set()
        telling.join()
