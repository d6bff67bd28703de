"""What of a package some code can reach."""

from __future__ import annotations

from context_engine.apps.packaging.reach import reachable

PACKAGE = {
    "bank/__init__.py": b"",
    "bank/py.typed": b"",
    "bank/search.py": b"from bank.text import words\n\ndef later():\n    import bank.late.engine\n",
    "bank/text.py": b"from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from bank.screen import Screen\n",
    "bank/screen.py": b"",
    "bank/late/__init__.py": b"",
    "bank/late/engine.py": b"",
    "bank/late/words/stop.txt": b"the",
    "bank/adapter.py": b"from bank import other\n",
    "bank/other.py": b"",
    "bank/tuning/__init__.py": b"",
    "bank/tuning/data.json": b"{}",
}


def reached(*sources: bytes, modules: tuple[str, ...] = ()) -> set[str]:
    return set(reachable(PACKAGE, sources, modules))


def test_imports_are_followed_into_functions_and_bring_the_packages_around_them() -> None:
    assert reached(b"from bank.search import search\n") == {
        "bank/__init__.py",
        "bank/py.typed",
        "bank/search.py",
        "bank/text.py",
        "bank/late/__init__.py",
        "bank/late/engine.py",
        "bank/late/words/stop.txt",
    }


def test_an_import_for_type_checkers_alone_is_none() -> None:
    assert "bank/screen.py" not in reached(b"import bank.text\n")
    assert "bank/screen.py" in reached(b"from bank import screen\n")


def test_what_is_imported_by_name_is_given() -> None:
    assert "bank/other.py" not in reached(b"import bank\n")
    assert {"bank/adapter.py", "bank/other.py"} <= reached(b"import bank\n", modules=("bank.adapter",))


def test_data_goes_with_the_package_it_lies_in() -> None:
    assert not [path for path in reached(b"import bank.search\n") if path.startswith("bank/tuning/")]
    assert "bank/tuning/data.json" in reached(b"import bank.tuning\n")


def test_a_file_that_is_no_python_reaches_nothing() -> None:
    assert reached(b"def (\n") == set()
