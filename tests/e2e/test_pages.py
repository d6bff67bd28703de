"""The pages for asking and reading in a real browser, over the demo bank."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.browser import Site, web_pages

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with web_pages(tmp_path_factory.mktemp("pages")) as opened:
        yield opened


def test_front_page_opens(site: Site) -> None:
    with site.page() as page:
        page.goto("/")
        assert page.locator("h1").count() == 1
