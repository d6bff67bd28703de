"""The pages for asking and reading in a real browser, over the demo bank: by mouse, by keyboard, without script."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.e2e.browser import PHONE, Site, accessibility_problems, web_pages

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
QUESTION = "notional threshold for a material change"
ANSWER = "the expected notional in the first year exceeds USD 10 million"
ASKED = f"/?domain=NPA&q={QUESTION.replace(' ', '+')}"
DOCUMENT = "/documents/NPA/npa_sops/NPA-SOP-001?version=3.1"
TWO_PARTS = (
    "How long must a trader be absent each year under the mandate procedure, and how long under the FCAA's notice?"
)
PAGES = (
    "/",
    ASKED,
    f"{ASKED}&compare=1",
    f"{ASKED}&steps=1",
    "/?domain=NPA&q=how+do+I+bake+bread",
    DOCUMENT,
    "/documents/NPA/npa_sops/NONE",
    "/jobs",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with web_pages(tmp_path_factory.mktemp("pages")) as opened:
        yield opened


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))


def test_a_question_is_asked_and_its_quote_opened(site: Site) -> None:
    with site.page() as page:
        page.goto("/")
        page.get_by_label("Domain").select_option("NPA")
        page.get_by_label("Question", exact=True).fill(QUESTION)
        page.get_by_role("button", name="Ask").click()
        page.locator(".sentences .cite").first.click()
        marked = page.locator("#passage")

        assert "NPA-SOP-001" in page.url
        assert ANSWER in marked.locator("mark.quote").inner_text()
        assert marked.evaluate("piece => piece.getBoundingClientRect().top < innerHeight")


def test_a_past_day_and_a_persona_change_the_answer_and_stand_in_the_address(site: Site) -> None:
    with site.page() as page:
        page.goto("/")
        page.get_by_label("Domain").select_option("NPA")
        page.get_by_label("Question", exact=True).fill(QUESTION)
        page.get_by_text("More choices").click()
        page.get_by_label("As of").fill("2024-06-30")
        page.get_by_role("button", name="Ask").click()

        assert "USD 25 million" in page.locator(".sentences").inner_text()
        assert "as_of=2024-06-30" in page.url
        assert "persona" not in page.url  # an empty field stays out of the address


def test_suggestions_come_as_one_types(site: Site) -> None:
    with site.page() as page:
        page.goto("/?domain=NPA")
        page.get_by_label("Question", exact=True).press_sequentially("class", delay=20)
        page.wait_for_selector("#suggestions option", state="attached")
        texts = [option.get_attribute("value") for option in page.locator("#suggestions option").all()]

        assert "Classification criteria" in texts


def test_everything_is_reached_by_keyboard_alone(site: Site) -> None:
    with site.page() as page:
        page.goto("/")
        page.wait_for_selector("#q:focus")  # the browser moves the focus there once it has drawn the page
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("/")
        assert focused(page) == "domain"  # a key typed into a field is the field's

        page.goto(ASKED)
        page.keyboard.press("Tab")
        assert focused(page) == "Skip to content"
        page.keyboard.press("/")
        assert focused(page) == "q"
        page.keyboard.type("time limits")
        page.keyboard.press("Enter")
        page.wait_for_url("**q=time+limits**")
        page.locator(".cite").first.focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("#passage")


def test_thumbs_answer_without_leaving_the_page(site: Site) -> None:
    with site.page() as page:
        page.goto(ASKED)
        answer = page.locator(".answer .thumbs")
        answer.get_by_role("button", name="This answer helps").click()
        answer.get_by_text("Thank you").wait_for()

        assert answer.locator("[aria-pressed=true]").count() == 1
        assert "q=notional" in page.url


def test_the_link_to_a_search_is_copied(site: Site) -> None:
    with site.page(permissions=["clipboard-read", "clipboard-write"]) as page:
        page.goto(ASKED)
        page.get_by_text("Link to this search").click()
        page.get_by_text("Copied").wait_for()
        page.goto(page.evaluate("navigator.clipboard.readText()"))

        assert "A search as it was made" in page.inner_text("main")


def test_every_step_works_without_script(site: Site) -> None:
    with site.page(java_script_enabled=False) as page:
        page.goto("/")
        page.get_by_label("Domain").select_option("NPA")
        page.get_by_label("Question", exact=True).fill(QUESTION)
        page.get_by_role("button", name="Ask").click()
        assert ANSWER in page.inner_text(".sentences")

        page.locator(".passage .thumbs").first.get_by_role("button", name="This passage helps").click()
        assert "Your judgement is kept." in page.inner_text("main")
        page.get_by_text("Back to the answer").click()

        page.get_by_text("Why it stands here").first.click()
        assert "× relevance" in page.locator(".why").first.inner_text()
        page.get_by_label("Follow-up question").fill("Who approves a New Product?")
        page.locator(".follow button").click()
        assert QUESTION in page.inner_text(".past")

        page.locator(".sentences .cite").first.click()
        assert page.locator("#passage").count() == 1
        page.locator(".versions a").last.click()
        assert page.locator(".versions .current").count() == 1


@pytest.mark.parametrize("look", [{}, {"color_scheme": "dark"}, {"viewport": PHONE}], ids=["light", "dark", "phone"])
def test_axe_finds_nothing(site: Site, look: dict[str, object]) -> None:
    with site.page(bypass_csp=True, **look) as page:
        for address in PAGES:
            page.goto(address)
            page.evaluate("document.querySelectorAll('main details').forEach(details => { details.open = true; })")
            assert accessibility_problems(page) == []
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{address} scrolls sideways"


@pytest.mark.parametrize("look", [{}, {"viewport": PHONE}], ids=["desktop", "phone"])
def test_a_job_is_started_and_gets_a_constraint(site: Site, look: dict[str, object]) -> None:
    with site.page(bypass_csp=True, **look) as page:
        page.goto("/jobs")
        page.get_by_label("New job").fill("Review of the facility agreements")
        page.get_by_label("Domain").select_option("NPA")
        page.get_by_role("button", name="Start").click()
        assert page.locator("h1").inner_text() == "Review of the facility agreements"
        page.get_by_label("New constraint").fill("Amounts in USD.")
        page.locator("section", has=page.get_by_role("heading", name="Constraints")).get_by_role("button").click()
        assert page.locator("#constraints + ul").inner_text() == "Amounts in USD."
        assert accessibility_problems(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_several_steps_are_shown_and_a_passage_of_a_later_one_is_judged(site: Site) -> None:
    with site.page() as page:
        page.goto("/")
        page.get_by_label("Domain").select_option("DESK")
        page.get_by_label("Question", exact=True).fill(TWO_PARTS)
        page.get_by_text("More choices").click()
        page.get_by_label("Several steps").check()
        page.get_by_role("button", name="Ask").click()

        assert page.locator(".steps li").count() == 3
        assert page.locator(".sentences li").count() == 2
        later = page.locator(".passage", has_text="found by search 3").first
        later.get_by_role("button", name="This passage helps").click()
        later.get_by_text("Thank you").wait_for()
        page.locator(".steps a").last.click()
        assert "/searches/" in page.url
