"""Rules that only the marketplace has: silent without them, a finding each with them."""

from __future__ import annotations

import pytest

from context_engine.apps.packaging import check_files

M = "manifest.yaml"
REPO = "https://github.com/bank/plugin"


@pytest.fixture
def accepted(staged: dict[str, bytes]) -> dict[str, bytes]:
    """A package that the marketplace takes."""
    lines = [line for line in staged[M].decode().splitlines() if not line.startswith(("repo:", "contact:"))]
    manifest = "\n".join([*lines, f"repo: {REPO}", "contact: plugins@bank.example", ""])
    readme = staged["README.md"] + f"\nSource: {REPO}\n".encode()
    return {**staged, M: manifest.encode(), "README.md": readme}


def test_a_complete_package_is_accepted(accepted: dict[str, bytes]) -> None:
    assert check_files(accepted, marketplace=True) == ()


@pytest.mark.parametrize(
    ("path", "old", "new", "key"),
    [
        (M, f"repo: {REPO}\n", "", "repo"),
        (M, f"repo: {REPO}\n", "repo: https://git.bank.example/plugin\n", "repo"),
        (M, "contact: plugins@bank.example\n", "", "contact"),
        (M, "plugins@bank.example", "the desk", "contact"),
        (M, "privacy: PRIVACY.md\n", "", "privacy"),
        ("README.md", REPO, "our server", ""),
    ],
)
def test_what_a_reviewer_needs_is_asked_for(
    accepted: dict[str, bytes], path: str, old: str, new: str, key: str
) -> None:
    text = accepted[path].decode()
    assert old in text
    files = {**accepted, path: text.replace(old, new).encode()}
    assert check_files(files) == ()
    assert [(finding.file, finding.key, finding.rule) for finding in check_files(files, marketplace=True)] == [
        (path, key, "marketplace")
    ]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("tools/trace.log", b"x"),
        ("keys/public.pem", b"x"),
        (".vscode/settings.json", b"{}"),
        ("tools/desktop.ini", b"x"),
        ("tools/fast.so", b"x"),
        ("tools/fast", b"\x7fELF\x02"),
    ],
)
def test_files_of_a_developer_and_programs_are_refused(accepted: dict[str, bytes], path: str, content: bytes) -> None:
    files = {**accepted, path: content}
    assert check_files(files) == ()
    assert [(finding.file, finding.rule) for finding in check_files(files, marketplace=True)] == [(path, "marketplace")]


def test_wheels_may_hold_programs(accepted: dict[str, bytes]) -> None:
    assert check_files({**accepted, "wheels/a-1-py3-none-any.whl": b"MZ"}, marketplace=True) == ()


def test_5000_files_are_the_most(accepted: dict[str, bytes]) -> None:
    full = {f"_assets/{number}.txt": b"x" for number in range(5000 - len(accepted))}
    assert check_files({**accepted, **full}, marketplace=True) == ()
    (finding,) = check_files({**accepted, **full, "_assets/more.txt": b"x"}, marketplace=True)
    assert (finding.rule, "5001 files" in finding.message) == ("marketplace", True)


@pytest.mark.parametrize(
    ("line", "told"),
    [("httpx", "no version range"), ("httpx @ https://bank.example/httpx-0.28.whl", "fetched from an address")],
)
def test_requirements_need_a_published_range(accepted: dict[str, bytes], line: str, told: str) -> None:
    requirements = accepted["requirements.txt"].decode().replace("httpx>=0.28,<1", line)
    findings = check_files({**accepted, "requirements.txt": requirements.encode()}, marketplace=True)
    assert [finding.key for finding in findings if finding.rule == "marketplace" and told in finding.message] == [
        "httpx"
    ]
