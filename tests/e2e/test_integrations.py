"""The retrievers in small real chains of LangChain, LlamaIndex and Haystack, in this process and against a server."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from context_engine.apps.integrations.knowledge import InProcess, Knowledge, Server
from context_engine.apps.integrations.passages import NoPassages
from context_engine.errors import InvalidRequest

from .serving import TOKEN, served

pytestmark = pytest.mark.slow
GUIDE = (Path(__file__).resolve().parents[2] / "docs/guides/integrations.md").read_text("utf-8")
QUESTION = "What is the hotel limit?"
LIMIT = "city limit"
WEB = "How many days after a journey may expense claims be submitted?"
NOTHING = "quantum chromodynamics"


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bank of `init`, ingested; its data lies beside it."""
    if not any(map(find_spec, ("langchain_core", "langgraph", "llama_index", "haystack"))):
        pytest.skip("no framework is installed")
    folder = tmp_path_factory.mktemp("integrations")
    for command in (
        ["init", "my-bank"],
        ["ingest", "my-bank/documents", "--domain", "HANDBOOK", "--config-dir", "my-bank"],
    ):
        subprocess.run(
            [sys.executable, "-m", "context_engine", *command],
            cwd=folder,
            env={"PATH": "", "HOME": str(folder), "CONTEXT_ENGINE_DATA_DIR": str(folder / "data")},
            check=True,
            capture_output=True,
        )
    return folder


@pytest.fixture(scope="module", params=["in process", "server"])
def knowledge(request: pytest.FixtureRequest, bank: Path) -> Iterator[Knowledge]:
    if request.param == "in process":
        here = InProcess(bank / "my-bank", data_dir=bank / "data")
        yield here
        here.close()
        return
    with served(bank / "my-bank", CONTEXT_ENGINE_DATA_DIR=str(bank / "data")) as service:
        there = Server(f"http://127.0.0.1:{service.port}", TOKEN)
        yield there
        there.close()


def checked(metadata: dict[str, Any]) -> None:
    """The metadata is JSON, with tier, freshness, confidence and the whole tag."""
    assert json.loads(json.dumps(metadata)) == metadata
    assert metadata["authority_tier"] in (2, 5) and metadata["provenance"]["source_type"] == metadata["source_type"]
    assert {"freshness", "confidence", "fetched_at", "status", "decision", "search_id"} <= metadata.keys()


def test_langchain(knowledge: Knowledge) -> None:
    pytest.importorskip("langchain_core")
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import RunnableLambda, RunnablePassthrough

    from context_engine.apps.integrations.langchain import ContextEngineRetriever

    retriever = ContextEngineRetriever(knowledge=knowledge, domain="HANDBOOK", top_k=3)
    documents = retriever.invoke(QUESTION)
    assert any(LIMIT in document.page_content for document in documents) and len(documents) <= 3
    web = retriever.invoke(WEB)
    assert {document.metadata["trust_class"] for document in web} == {"TRUSTED", "UNTRUSTED"}
    for document in (*documents, *web):
        checked(document.metadata)
        untrusted = document.metadata["trust_class"] == "UNTRUSTED"
        assert document.page_content.startswith("<<<untrusted ") == untrusted
    assert len(retriever.invoke("limit", top_k=1)) == 1
    with pytest.raises(ValueError, match="topk"):  # a field that does not exist is refused
        ContextEngineRetriever(knowledge=knowledge, domain="HANDBOOK", topk=3)
    same = asyncio.run(retriever.ainvoke(QUESTION))
    assert [document.id for document in same] == [document.id for document in documents]

    prompts: list[str] = []

    def seen(prompt: Any) -> Any:
        prompts.append(prompt.to_string())
        return prompt

    prompt = ChatPromptTemplate.from_template("{context}\n\nQuestion: {question}")
    model = FakeListChatModel(responses=["The city limit."])
    texts = RunnableLambda(lambda found: "\n\n".join(document.page_content for document in found))
    chain = (
        {"context": retriever | texts, "question": RunnablePassthrough()} | prompt | seen | model | StrOutputParser()
    )
    assert chain.invoke(QUESTION) == "The city limit." and LIMIT in prompts[0]
    assert asyncio.run(chain.ainvoke(QUESTION)) == "The city limit."

    with pytest.raises(NoPassages, match="no passage, decision"):
        retriever.invoke(NOTHING)
    refused = RunnableLambda(lambda _question: [])
    assert retriever.with_fallbacks([refused], exceptions_to_handle=(NoPassages,)).invoke(NOTHING) == []
    assert ContextEngineRetriever(knowledge=knowledge, domain="HANDBOOK", empty_allowed=True).invoke(NOTHING) == []
    for copied in (copy.deepcopy(retriever), pickle.loads(pickle.dumps(retriever))):
        assert [document.id for document in copied.invoke(QUESTION)] == [document.id for document in documents]
        copied.knowledge.close()
    assert TOKEN not in repr(retriever)
    with pytest.raises(InvalidRequest, match="Did you mean 'persona_key'"):
        ContextEngineRetriever(knowledge=knowledge, request={"personakey": "analyst"})


def test_llamaindex(knowledge: Knowledge) -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.schema import MetadataMode

    from context_engine.apps.integrations.llamaindex import ContextEngineRetriever

    retriever = ContextEngineRetriever(knowledge, domain="HANDBOOK", top_k=3)
    nodes = retriever.retrieve(QUESTION)
    assert any(LIMIT in node.text for node in nodes)
    for node in nodes:
        checked(node.metadata)
        shown = node.node.get_content(MetadataMode.LLM)
        assert "provenance" not in shown and "source_type: " in shown
        assert node.node.get_content(MetadataMode.EMBED) == node.text
    same = asyncio.run(retriever.aretrieve(QUESTION))
    assert [node.node_id for node in same] == [node.node_id for node in nodes]

    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM())
    response = engine.query(QUESTION)
    assert LIMIT in str(response), "the mock model repeats its prompt"
    assert [node.node_id for node in response.source_nodes] == [node.node_id for node in nodes]
    assert LIMIT in str(asyncio.run(engine.aquery(QUESTION)))
    with pytest.raises(NoPassages):
        engine.query(NOTHING)
    copied = copy.deepcopy(retriever)
    assert [node.node_id for node in copied.retrieve(QUESTION)] == [node.node_id for node in nodes]


def test_haystack(knowledge: Knowledge, bank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("haystack")
    from haystack import Pipeline
    from haystack.components.builders import PromptBuilder
    from haystack.utils import Secret

    from context_engine.apps.integrations.haystack import ContextEngineRetriever

    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(bank / "data"))
    monkeypatch.setenv("BANK_SEARCH_TOKEN", TOKEN)
    if isinstance(knowledge, Server):
        token = Secret.from_env_var("BANK_SEARCH_TOKEN")
        where: dict[str, Any] = {"server_url": knowledge.server_url, "token": token}
    else:
        where = {"config_dir": str(bank / "my-bank")}

    pipeline = Pipeline()
    pipeline.add_component("retriever", ContextEngineRetriever(**where, domain="HANDBOOK", top_k=3))
    template = "{% for document in documents %}{{ document.content }}\n{% endfor %}Question: {{ question }}"
    pipeline.add_component("prompt", PromptBuilder(template, required_variables="*"))
    pipeline.connect("retriever.documents", "prompt.documents")

    asked = {"retriever": {"query": QUESTION}, "prompt": {"question": QUESTION}}
    out = pipeline.run(asked, include_outputs_from={"retriever"})
    assert LIMIT in out["prompt"]["prompt"]
    assert (out["retriever"]["decision"], out["retriever"]["status"]) == ("answered", "complete")
    for document in out["retriever"]["documents"]:
        checked(document.meta)
    assert LIMIT in asyncio.run(pipeline.run_async(asked))["prompt"]["prompt"]
    one = pipeline.run({**asked, "retriever": {"query": QUESTION, "top_k": 1}}, include_outputs_from={"retriever"})
    assert len(one["retriever"]["documents"]) == 1

    nothing = pipeline.run({"retriever": {"query": NOTHING}, "prompt": {"question": NOTHING}}, {"retriever"})
    assert nothing["retriever"]["documents"] == []
    assert nothing["retriever"]["decision"] in ("no_match", "out_of_scope")

    written = pipeline.dumps()
    assert TOKEN not in written
    again = Pipeline.loads(written, allowed_modules=["context_engine.apps.integrations.haystack"])
    assert LIMIT in again.run(asked)["prompt"]["prompt"] and again.dumps() == written


BLOCKS = dict(re.findall(r"^<!-- ([\w-]+) -->\n```python\n(.*?)^```$", GUIDE, flags=re.M | re.S))
NEEDED = {
    "langchain": "langchain_core",
    "langgraph": "langgraph",
    "llamaindex": "llama_index.core",
    "haystack": "haystack",
}


@pytest.mark.parametrize("name", sorted(NEEDED))
def test_the_program_of_the_guide_runs(
    name: str, bank: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(NEEDED[name])
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(bank / "data"))
    monkeypatch.chdir(bank)
    exec(compile(BLOCKS[name], f"integrations.md, {name}", "exec"), {})
    assert LIMIT in capsys.readouterr().out


def test_the_program_of_the_guide_over_a_server_runs(
    bank: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("langchain_core")
    monkeypatch.setenv("BANK_SEARCH_TOKEN", TOKEN)
    with served(bank / "my-bank", CONTEXT_ENGINE_DATA_DIR=str(bank / "data")) as service:
        program = BLOCKS["server"].replace("127.0.0.1:8080", f"127.0.0.1:{service.port}")
        exec(compile(program, "integrations.md, server", "exec"), {})
    assert int(capsys.readouterr().out) >= 1
    assert set(BLOCKS) == {*NEEDED, "server"}
