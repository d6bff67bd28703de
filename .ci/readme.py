"""Print the code of a named block of the README: a fence that opens with ```LANGUAGE NAME."""

import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"


def blocks() -> dict[str, str]:
    """Return {name: code} of the README's named blocks."""
    fences = re.findall(r"^```\w+ ([\w-]+)\n(.*?)^```$", README.read_text(encoding="utf-8"), flags=re.M | re.S)
    return dict(fences)


if __name__ == "__main__":
    print(blocks()[sys.argv[1]], end="")
