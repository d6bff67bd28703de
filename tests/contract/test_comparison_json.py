"""The published form of a comparison. A change here changes it for every reader.

Changed on purpose? Write the schema anew, raise COMPARISON_VERSION and say so in the change log:

    python tests/contract/test_comparison_json.py
"""

import json
from pathlib import Path

import jsonschema

from context_engine.service.comparing import compare
from context_engine.service.contract.comparison import ComparisonAnswer

FILE = Path(__file__).parents[2] / "config/schemas/comparison-v1.json"


def schema():
    made = ComparisonAnswer.model_json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def write():
    FILE.write_text(json.dumps(schema(), indent=2, ensure_ascii=False) + "\n", "utf-8")


def test_the_published_schema_is_that_of_the_model():
    assert json.loads(FILE.read_text("utf-8")) == schema()


def test_a_comparison_keeps_it(ask, chunk_of):
    result = ask([(1, [chunk_of("a", 0.85)]), (5, [chunk_of("b", 0.9), chunk_of("c", 0.05)])])
    said = json.loads(ComparisonAnswer(data=compare(result)).model_dump_json())
    jsonschema.validate(said, json.loads(FILE.read_text("utf-8")), jsonschema.Draft202012Validator)
    assert [set(said), set(said["data"])] == [
        {"success", "data"},
        {
            "schema_version",
            "search_id",
            "request_id",
            "query",
            "domain",
            "persona",
            "baseline",
            "enhanced",
            "difference",
        },
    ]


if __name__ == "__main__":
    write()
