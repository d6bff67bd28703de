"""The auditor's and the operator's pages in a real browser, over records of the demo bank."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.e2e.browser import PHONE, Site, accessibility_problems, web_pages

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
QUESTIONS = ("who approves a new product", "limit <script>alert(1)</script> for the desk", "default fund sizing")
DOMAINS = ("NPA", "DESK", "DCE")
RECORDED = {"CONTEXT_ENGINE_AUDIT_MODE": "required"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("review")


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[Site]:
    with web_pages(folder, env=RECORDED) as opened:
        with opened.page() as page:
            for domain, question in zip(DOMAINS, QUESTIONS, strict=True):
                page.goto("/")
                page.get_by_label("Domain").select_option(domain)
                page.get_by_label("Question", exact=True).fill(question)
                page.get_by_role("button", name="Ask").click()
        yield opened


def open_case(page: Page, question: str = QUESTIONS[0]) -> None:
    page.goto("/review?kind=searches")
    page.get_by_role("link", name=question).first.click()
    assert page.get_by_role("heading", level=1).inner_text() == question


def test_a_case_is_found_from_the_front_page_and_rebuilt(site: Site) -> None:
    with site.page() as page:
        page.goto("/")
        page.get_by_role("link", name="Review").click()
        page.get_by_label("Domain").select_option("NPA")
        page.get_by_label("Kind").select_option("searches")
        page.get_by_role("button", name="Show").click()
        assert page.locator(".records tbody tr").count() == 1
        page.get_by_role("link", name=QUESTIONS[0]).click()

        for heading in ("The record", "Funnel", "Shown", "Not shown", "Sources"):
            assert page.get_by_role("heading", name=heading, exact=True).is_visible()
        assert page.locator("svg.funnel").is_visible()
        with page.expect_download() as download:
            page.get_by_role("link", name="Download the proof").click()
        assert "c2sp.org/tlog-proof" in Path(download.value.path()).read_text("utf-8")


def test_checks_by_button(site: Site) -> None:
    with site.page() as page:
        open_case(page)
        page.get_by_role("button", name="Replay").click()
        assert "Identical" in page.locator("#finding").inner_text()
        page.get_by_role("button", name="Compare with the sources now").click()
        assert "All chunks are as they were shown" in page.locator("#finding").inner_text()
        page.get_by_role("button", name=re.compile("Why not .+@")).first.click()
        assert "was dropped at select" in page.locator("#finding").inner_text()
        page.get_by_role("button", name="Why here?").first.click()
        assert "was shown at rank 1" in page.locator("#finding").inner_text()


def test_an_exception_leads_to_its_records_and_a_document_to_its_answers(site: Site) -> None:
    with site.page() as page:
        page.goto("/review")
        page.get_by_role("link", name="Untrusted chunk shown").click()
        assert page.locator(".records tbody tr").count() >= 1
        assert "exception=untrusted" in page.url
        open_case(page)
        page.locator(".chunks dd a").first.click()
        assert "used it" in page.locator("main").inner_text()


def test_the_ledger_is_verified_from_the_page(site: Site) -> None:
    with site.page() as page:
        page.goto("/review/integrity")
        page.get_by_role("button", name="Verify now").click()
        while page.get_by_role("link", name="Load again").count():
            page.get_by_role("link", name="Load again").click()
        assert "Self-consistent" in page.locator(".verdict").inner_text()


def test_by_keyboard_alone(site: Site) -> None:
    with site.page() as page:
        page.goto("/review?kind=searches")
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.matches('.records th a')"):
                break
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("/review/[0-9a-f]+$"))
        for _ in range(20):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.textContent") == "Replay":
                break
        page.keyboard.press("Enter")
        assert "Identical" in page.locator("#finding").inner_text()


def test_everything_works_without_script(site: Site) -> None:
    with site.page(java_script_enabled=False) as page:
        page.goto("/review?kind=searches")
        page.get_by_label("Document id").fill("NPA-SOP-001")
        page.get_by_role("button", name="Show").click()
        page.get_by_role("link", name=QUESTIONS[0]).first.click()
        page.get_by_role("button", name="Replay").click()
        assert "Identical" in page.locator("#finding").inner_text()


def test_a_contradiction_is_settled_without_script(site: Site) -> None:
    with site.page(java_script_enabled=False) as page:
        page.goto("/review/conflicts?domain=DCE&kind=currency")
        while page.get_by_role("status").count():  # the documents are being compared
            page.reload()
        finding = page.locator(".contradiction").first
        assert finding.locator("mark").all_inner_texts() == ["USD 500,000", "EUR 500,000"]
        finding.get_by_text("Settle", exact=True).first.click()
        finding.get_by_label("Why it is none").fill("The notice is for other banks")
        finding.get_by_role("button", name="Settle").click()
        assert "The notice is for other banks" in page.locator("#settled").inner_text()
        page.locator("#settled footer a").first.click()
        assert page.locator("mark.quote").count()


def test_a_recorded_injection_is_text(site: Site) -> None:
    with site.page() as page:
        alerts: list[str] = []
        page.on("dialog", lambda dialog: alerts.append(dialog.message))
        open_case(page, QUESTIONS[1])
        page.get_by_role("button", name="Replay").click()
        assert (alerts, page.get_by_role("heading", level=1).inner_text()) == ([], QUESTIONS[1])


NARROW = 320  # a window of 1280 at a zoom of 400 % (WCAG 1.4.10)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible_and_fit_a_phone(site: Site, scheme: str) -> None:
    with site.page(bypass_csp=True, color_scheme=scheme, viewport=PHONE) as page:
        open_case(page)
        case = urlsplit(page.url).path
        page.get_by_role("button", name="Replay").click()
        assert accessibility_problems(page) == []
        document = "/review/documents/NPA/npa_sops/NPA-SOP-001"
        operators = ("/review/integrity", "/review/conflicts?domain=DCE", "/review/subscriptions", "/admin")
        for path in ("/review", case, document, *operators, "/admin/quality"):
            page.goto(path)
            assert accessibility_problems(page) == [], path
            for width in (PHONE["width"], NARROW):
                page.set_viewport_size({**PHONE, "width": width})
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (path, width)


def test_a_button_pressed_on_another_site_does_nothing(site: Site) -> None:
    cookie = "; ".join(f"{each['name']}={each['value']}" for each in site.session["cookies"])
    parts = urlsplit(site.address)
    for foreign in ({"Origin": "http://elsewhere.example"}, {"Sec-Fetch-Site": "cross-site"}):
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        connection.request("POST", "/review/integrity/verify", headers={"Cookie": cookie, **foreign})
        assert connection.getresponse().status == 403
        connection.close()


def test_the_report_of_a_case_is_one_file_that_asks_for_nothing(site: Site, folder: Path) -> None:
    with site.page() as page:
        open_case(page)
        record_id = urlsplit(page.url).path.rpartition("/")[2]
    command = [sys.executable, "-m", "context_engine", "audit", "report", record_id, "--html", "case.html", "--json"]
    env = {**os.environ, **RECORDED, "HOME": str(folder), "XDG_DATA_HOME": str(folder / "data")}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=True)

    assert json.loads(done.stdout)["replay"]["identical"] is True
    context = site.browser.new_context()
    requests: list[str] = []
    context.on("request", lambda request: requests.append(request.url))
    opened = context.new_page()
    opened.goto((folder / "case.html").as_uri())
    assert opened.get_by_role("heading", level=1).inner_text() == QUESTIONS[0]
    assert "Identical" in opened.locator("#finding").inner_text()
    assert requests == [(folder / "case.html").as_uri()]
    context.close()


def test_the_operator_sees_that_everything_is_up(site: Site) -> None:
    with site.page() as page:
        page.goto("/admin")
        for _ in range(40):
            if page.get_by_text("are being examined").count() == 0:
                break
            page.reload()
        assert page.locator(".badge.good", has_text="ok").count() == 20
        assert page.get_by_role("img", name="Searches a day").is_visible()
