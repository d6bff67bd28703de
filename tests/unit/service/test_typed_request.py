"""A program that asks in Python passes a strict type checker without a plugin."""

import subprocess
import sys

import pytest

PROGRAM = """
from context_engine import Classification, Principal, RAGQueryRequest, SearchRequest

dora = Principal(id="dora", roles=frozenset({"analyst"}), clearance=Classification.CONFIDENTIAL)
asked = RAGQueryRequest(query="hotel limit", persona_key="educator")
request = SearchRequest(query="hotel limit", domain="HANDBOOK", principal=dora, top_k=5)
"""


@pytest.mark.slow
def test_requests_need_only_what_is_mandatory(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "program.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout
