"""Run files there and back."""

import pytest

from context_engine.errors import ConfigError
from context_engine.evaluation.qrels import read_run, write_run

RANKINGS = {"q 1": [("SOP-1@3.2#4", 0.9), ("a b%20c", 0.9), ("é", 0.25)], "q2": [("x", -1.5)]}


def test_a_run_comes_back_as_it_was_written(tmp_path):
    path = tmp_path / "runs" / "a.run"
    write_run(path, RANKINGS, "as configured")
    assert read_run(path) == RANKINGS
    assert path.read_text("utf-8").splitlines()[0] == "q%201 Q0 SOP-1@3.2#4 1 0.900000 as-configured"


def test_three_columns_and_the_order_of_scores(written):
    assert read_run(written("r.txt", "q a 0.1\nq b 0.3\nq c 0.3\n")) == {"q": [("b", 0.3), ("c", 0.3), ("a", 0.1)]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("q a\n", "line 1: has 2 columns"),
        ("q a 1\n\nq b much\n", "line 3: the score must be a number, got 'much'"),
        ("q a nan\n", "line 1: the score must be a number, got 'nan'"),
        ("q a 1\nq a 2\n", "line 2: a appears twice for question q"),
        ("", "holds no ranking"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_line(written, text, said):
    with pytest.raises(ConfigError) as error:
        read_run(written("r.run", text))
    assert said in str(error.value)
