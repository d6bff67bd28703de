"""Print the code of a named block of the README or a guide: a fence below the comment `<!-- NAME -->`."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def blocks() -> dict[str, str]:
    """Return {name: code} of the named blocks."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    return dict(re.findall(r"^<!-- ([\w-]+) -->\n```\w+\n(.*?)^```$", text, flags=re.M | re.S))


if __name__ == "__main__":
    print(blocks()[sys.argv[1]], end="")
