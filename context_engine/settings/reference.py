"""Reference pages made from the code.

`python -m context_engine.settings.reference ROOT` writes them below ROOT/docs/reference.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from context_engine.core.models import NoticeCode

__all__ = ["pages", "write_pages"]


def pages() -> Mapping[str, str]:
    """Return each page as Markdown, by its path below the root."""
    return {"docs/reference/notices.md": _notices()}


def write_pages(root: Path) -> list[Path]:
    """Write every page below `root` and return the paths."""
    written: list[Path] = []
    for name, text in pages().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        written.append(path)
    return written


def _notices() -> str:
    rows = [f"| `{code}` | {code.__doc__} | {_fields(code)} |" for code in sorted(NoticeCode)]
    return f"""# Notices

A notice says what a reader should know of an answer or a configuration. Programs decide by its `code`, which keeps its
meaning; the `message` is a sentence for people and may be reworded at any time. `subject` is what the notice is about
(a source, a setting, a file, a domain), `detail` holds the values in the message by name, those of them that are known.

`search --json` writes the notices of a search as `notices`, and their messages as `warnings`, in the same order.

| Code | Meaning | Detail |
|---|---|---|
{chr(10).join(rows)}
"""


def _fields(code: NoticeCode) -> str:
    return ", ".join(f"`{name}`" for name in code.fields)


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd())
