"""The reference pages are those that the code makes."""

from pathlib import Path

from context_engine.core.models import NoticeCode
from context_engine.settings.reference import write_pages

ROOT = Path(__file__).parents[2]


def test_the_reference_pages_are_up_to_date(tmp_path: Path) -> None:
    """Changed on purpose? Run `python -m context_engine.settings.reference .`."""
    for path in write_pages(tmp_path):
        name = path.relative_to(tmp_path)
        assert (ROOT / name).read_text("utf-8") == path.read_text("utf-8"), name


def test_every_code_of_a_notice_is_listed() -> None:
    page = (ROOT / "docs/reference/notices.md").read_text("utf-8")
    for code in NoticeCode:
        assert f"| `{code}` | {code.__doc__} |" in page
