"""The pages of `context-engine web` in a real Chromium, signed in; what goes wrong in the browser fails the test."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

DESKTOP: Final = {"width": 1280, "height": 900}
PHONE: Final = {"width": 390, "height": 844}
_CHROMIUM: Final = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_AXE: Final = os.environ.get("AXE_JS", "")
_LINK: Final = re.compile(r"pages: (http://\S+/sign-in\?code=\S+)")
_START_S: Final = 120.0


@dataclass(frozen=True)
class Site:
    """Running pages and a browser that is signed in.

    Attributes:
        address: such as http://127.0.0.1:8123, without a slash at its end.
        session: the cookies of the signed-in person.
    """

    address: str
    browser: Browser
    session: Any

    @contextmanager
    def page(self, **options: Any) -> Iterator[Page]:
        """Open a page; in the end it must have had no script error and no request to another site.

        Args:
            options: of Playwright's `new_context`: `viewport`, `color_scheme`, `java_script_enabled`, `bypass_csp` ...
        """
        options = {"viewport": DESKTOP, "base_url": self.address, "storage_state": self.session, **options}
        context = self.browser.new_context(**options)
        problems: list[str] = []
        context.on("weberror", lambda error: problems.append(str(error.error)))
        context.on("console", lambda line: problems.append(line.text) if _is_error(line) else None)
        context.on("request", lambda request: None if self._owns(request.url) else problems.append(request.url))
        try:
            yield context.new_page()
        finally:
            context.close()
        assert not problems, problems

    def _owns(self, address: str) -> bool:
        return address.startswith((f"{self.address}/", "data:", "about:", "blob:"))


def _is_error(line: ConsoleMessage) -> bool:
    """Return whether the browser reports an error; a page that answers with an error status is none."""
    opened = line.page.url if line.page is not None else ""
    return line.type == "error" and line.location["url"] != opened


@contextmanager
def web_pages(folder: Path, *options: str, env: Mapping[str, str] | None = None) -> Iterator[Site]:
    """Start `context-engine web` in a folder with a browser beside it; without a Chromium the test is skipped.

    Args:
        options: of the command; without a configuration it shows the demo bank.
        env: more variables of its environment.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if _CHROMIUM is None:
        pytest.skip("there is no Chromium on the PATH: Debian's package is 'chromium'")
    with (
        _started(folder, options, env or {}) as link,
        playwright.sync_playwright() as driver,
        driver.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"]) as browser,
    ):
        context = browser.new_context()
        context.new_page().goto(link)
        session = context.storage_state()
        context.close()
        parts = urlsplit(link)
        yield Site(f"{parts.scheme}://{parts.netloc}", browser, session)


def file_pages(files: Sequence[Path], **options: Any) -> Iterator[Page]:
    """Open pages that are files, one after another; none may load anything. Without a Chromium the test is skipped.

    Args:
        options: as of `Site.page`.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if _CHROMIUM is None:
        pytest.skip("there is no Chromium on the PATH: Debian's package is 'chromium'")
    with (
        playwright.sync_playwright() as driver,
        driver.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"]) as browser,
    ):
        page = browser.new_context(**{"viewport": DESKTOP, **options}).new_page()
        loaded: list[str] = []
        page.on("request", lambda request: loaded.append(request.url))
        for file in files:
            page.goto(file.as_uri())
            yield page
        assert [address for address in loaded if not address.startswith("data:")] == [file.as_uri() for file in files]


def accessibility_problems(page: Page) -> list[str]:
    """Return what axe-core finds on a page that was opened with `bypass_csp=True`, a line for each element.

    The environment variable AXE_JS names the file `axe.min.js` of the npm package `axe-core`; without it the test is
    skipped.
    """
    if not Path(_AXE).is_file():
        pytest.skip("the environment variable AXE_JS does not name axe.min.js of the npm package axe-core")
    page.wait_for_load_state()  # a click before it may still be loading the page
    page.add_script_tag(path=_AXE)
    violations = page.evaluate("async () => (await axe.run()).violations")
    return [
        f"{rule['id']}: {rule['help']}: {node['html'][:200]} ({node['failureSummary']})"
        for rule in violations
        for node in rule["nodes"]
    ]


@contextmanager
def _started(folder: Path, options: tuple[str, ...], env: Mapping[str, str]) -> Iterator[str]:
    """Start the command and yield the address that signs in; it is ended in the end."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXT_ENGINE_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "context_engine", "web", "--no-browser", *options],
        cwd=folder,
        env={**known, "HOME": str(folder), "XDG_DATA_HOME": str(folder / "data"), **env},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    lines, link, is_known = list[str](), list[str](), threading.Event()

    def read() -> None:
        for line in iter(process.stderr.readline, "") if process.stderr else ():
            lines.append(line)
            if (match := _LINK.search(line)) is not None:
                link.append(match[1])
                is_known.set()
        is_known.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        assert is_known.wait(_START_S) and link, f"the pages did not start: {lines}"
        yield link[0]
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)
        reader.join(10)
        process.stderr.close()
