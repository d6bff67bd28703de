from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.errors import ConfigError
from context_engine.settings.files import dotted, read_json, read_yaml


def file(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "file"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_json_with_comments_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = file(tmp_path, '\ufeff{"$schema": "x", "// a": "why", "a": {"//": 1, "b": 2}}')
    assert read_json(path, "c.json") == {"a": {"b": 2}}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not JSON: Expecting value, line 1, column 1"),
        ('{"a": 1,\n "b": }', "is not JSON: Expecting value, line 2, column 7"),
        ('{"a": 1, "a": 2}', "a: appears twice"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ("[1]", "holds a list: it must hold keys"),
        (b"\xff\xfe", "is not UTF-8 text (byte 0): save it as UTF-8"),
        ('{"a": ' * 3000 + "1" + "}" * 3000, "is nested deeper"),
        ('{"a": ' * 25 + "1" + "}" * 25, "is nested deeper"),
        (" " * 1_000_001, "is larger than 1000000 bytes"),
    ],
)
def test_json_that_cannot_be_used(tmp_path: Path, text: str | bytes, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_json(file(tmp_path, text), "c.json")
    assert str(raised.value).startswith("c.json: ") and problem in str(raised.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("# only a comment", "is empty"),
        ("a: 1\nb: 2\na: 3", "the key 'a' appears twice, line 3, column 1"),
        ("s:\n  - {x: 1, x: 2}", "the key 'x' appears twice, line 2, column 12"),
        ("a:\n\t- b", "is not valid YAML"),
        ("a: [1", "is not valid YAML"),
        ("a: !!python/object/apply:os.system [ls]", "is not valid YAML"),
        ("a: *nowhere", "is not valid YAML"),
        ("NO: x", "the key False is not text: put it in quotes"),
        ("a: {1: x}", "a: the key 1 is not text"),
        ("a: &a [*a]", "is nested deeper"),
        ("a: 2025-13-45", "is not valid YAML"),
        ("- a", "holds a list"),
        ("a: 1\n---\nb: 2", "is not valid YAML"),
    ],
)
def test_yaml_that_cannot_be_used(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_yaml(file(tmp_path, text), "m.yaml")
    assert str(raised.value).startswith("m.yaml: ") and problem in str(raised.value)


def test_aliases_that_blow_up_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(ConfigError, match="holds more than"):
        read_yaml(file(tmp_path, "\n".join(lines)), "m.yaml")


def test_anchors_and_overrides_of_merged_keys_are_fine(tmp_path: Path) -> None:
    text = "base: &base {ttl: 1, tier: 2}\none: &one\n  <<: *base\n  ttl: 5\ntwo: {<<: *one, tier: 3}\n"
    data = read_yaml(file(tmp_path, text), "m.yaml")
    assert data["one"] == {"ttl": 5, "tier": 2} and data["two"] == {"ttl": 5, "tier": 3}


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^m\.yaml: cannot be read \(No such file or directory\)$"):
        read_yaml(tmp_path / "none", "m.yaml")


def test_a_location_in_words() -> None:
    data = {"sources": [{"id": "sops", "documents": [{}]}, {"no": "id"}]}
    assert dotted(("sources", 0, "documents", 0, "include"), data) == "sources.sops.documents.0.include"
    assert dotted(("sources", 1, "tier"), data) == "sources.1.tier"
    assert dotted(("sources", 7, "tier"), data) == "sources.7.tier"
