"""What an answer of Dify that is no success stands for."""

import json
from datetime import UTC, datetime

import pytest

from context_engine.adapters.http import HttpAnswer, refusal
from context_engine.adapters.sources.dify.api import DIFY

NOW = datetime(2026, 1, 5, tzinfo=UTC)


def refused(status, **body):
    return refusal(HttpAnswer(status, {}, json.dumps(body).encode()), DIFY.statuses, name="Dify", now=NOW)


@pytest.mark.parametrize(
    "message",
    ["Default model not found for text-embedding", "No default model set", "Provider acme does not exist."],
)
def test_a_workspace_without_an_embedding_model_says_what_to_do(message):
    error = refused(400, code="invalid_param", message=message)
    assert str(error) == (
        "Dify cannot use the embedding or rerank model of the dataset: set it up in Dify, or use a dataset of "
        "indexing_technique economy, which needs none"
    )


def test_words_that_are_not_known_stay_in_the_debug_log():
    error = refused(400, code="invalid_param", message="SELECT secret FROM hosts")
    assert str(error) == "Dify refused the request (400): the debug log holds its words"
