"""Take the pictures of the documentation: the real pages over the demo bank, in a headless Chromium.

Usage: python .ci/pictures.py docs/pictures        (needs Playwright from the package index and Debian's chromium)
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

QUESTION = "/?domain=DCE&q=What+is+the+minimum+transfer+amount%3F"
SIZE = {"width": 1180, "height": 800}
LINK = re.compile(r"pages: (http://\S+?)(/sign-in\?code=\S+)")


def main(folder: Path) -> None:
    """Write answer.png, case.png and admin.png into a folder."""
    chromium = shutil.which("chromium")
    assert chromium, "there is no chromium on the PATH"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "HOME": home, "XDG_DATA_HOME": home, "CONTEXT_ENGINE_AUDIT_MODE": "required"}
        command = [sys.executable, "-m", "context_engine", "web", "--no-browser"]
        served = subprocess.Popen(command, cwd=home, env=env, stderr=subprocess.PIPE, text=True)
        try:
            assert served.stderr is not None
            link = next(match for match in map(LINK.search, served.stderr) if match)
            _take(link[1], link[2], folder, chromium)
        finally:
            served.terminate()
            served.wait()


def _take(address: str, sign_in: str, folder: Path, chromium: str) -> None:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.goto(address + sign_in)
        page.wait_for_url(address + "/")
        page.goto(address + QUESTION)
        page.screenshot(path=folder / "answer.png")
        search = page.get_attribute('a[href^="/searches/"]', "href") or ""
        page.goto(address + search.replace("/searches/", "/review/"))
        page.screenshot(path=folder / "case.png")
        page.goto(address + "/admin")
        page.screenshot(path=folder / "admin.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
