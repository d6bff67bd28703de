"""How many connections a source's datasets want."""

from context_engine.adapters.sources.dify.examine import connections_advice

FIVE = (0.2, 0.4, 0.6, 0.8, 1.0)


def test_what_a_number_of_connections_does_and_which_would_serve():
    # 1.0 | 0.8 + 0.2 | 0.6 + 0.4: three connections take as long as the slowest; 20 * 3.0 s / 2.0 s = 30 for twenty
    said, starves = connections_advice(FIVE, 4, 10.0)
    assert "0.2 to 1 s a dataset (3 s for all 5)" in said
    assert "max_connections 4 one search takes about 1 s, and 13 at a time are served within 10 s" in said
    assert "3 would do for one search, about 30 for 20 at a time" in said
    assert "SERVER_WORKER_CONNECTIONS" in starves


def test_too_few_for_one_search():
    said, _ = connections_advice([1.0] * 20, 4, 10.0)
    assert "max_connections 4 one search takes about 5 s, and 2 at a time" in said
    assert "20 would do for one search, about 200" in said


def test_one_dataset_wants_one_and_ten_for_many():
    said = connections_advice([0.5], 4, 10.0)
    assert len(said) == 1
    assert "1 would do for one search, about 10 for 20 at a time" in said[0]
