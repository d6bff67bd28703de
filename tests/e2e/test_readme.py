"""Every command and program of the README and the guides is run here, or by the project's check (`RUN_BY_CI`)."""

import json
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README, ANALYST = ROOT / "README.md", ROOT / "docs/guides/analyst.md"
OTHERWISE_TESTED = {
    "answer-contract.md",
    "cache.md",
    "chat-models.md",
    "deployment.md",
    "events.md",
    "integrations.md",
    "mcp.md",
    "namespaces.md",
    "neo4j.md",
    "observability.md",
    "pages.md",
    "pages-review.md",
    "opensearch.md",
    "postgres.md",
    "quality.md",
    "rag-api.md",
    "service.md",
    "tuning.md",
    "write-an-adapter.md",
}
PAGES = [README, *(page for page in sorted((ROOT / "docs/guides").glob("*.md")) if page.name not in OTHERWISE_TESTED)]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
NAMED = re.findall(r"^<!-- ([\w-]+) -->\n```\w+\n(.*?)^```$", TEXT, flags=re.M | re.S)
BLOCKS = dict(NAMED)
RUN_BY_CI = {"first", "tests", "offline-here", "offline-there"}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with `.venv/bin` holding this environment's programs, as the README's reader has it."""
    home = tmp_path_factory.mktemp("reader")
    (home / ".venv" / "bin").mkdir(parents=True)
    (home / ".venv" / "bin" / "context-engine").symlink_to(Path(sys.executable).parent / "context-engine")
    python = home / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    return home


def run(code, home, *, shell=True):
    env = {key: value for key, value in os.environ.items() if not key.startswith(("CONTEXT_ENGINE_", "RAG_"))}
    env |= {
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "NO_COLOR": "1",
        "COLUMNS": "160",
    }
    command = ["bash", "-euo", "pipefail", "-c", code] if shell else [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=home, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def out(home):
    """What the README's first command answers, as JSON."""
    return json.loads(run('.venv/bin/context-engine search "NPA classification criteria" --domain NPA --json', home))


def test_every_block_is_run():
    here = {"tags", "own", "connections", "manifest", "dify-server", "dify", "plugin", "typed"}
    here |= {"dify-ingest-manifest", "dify-ingest"}
    here |= {"dicts", "adapter", "contract", "models", "eval", "access-manifest", "access-file", "access"}
    here |= {"tokens", "oidc", "sign-in", "rerankers", "vector-form"}
    here |= {"principal", "policy", "privacy", "ask", "own-models", "own-models-package"}
    assert set(BLOCKS) == here | RUN_BY_CI
    assert len(NAMED) == len(BLOCKS), "one name, one block"
    assert len(re.findall(r"^```(?!text)\w", TEXT, flags=re.M)) == len(BLOCKS), "name every block that is not text"


@pytest.mark.parametrize(
    "page", ["README.md", "dify_plugin/README.md", "dify_plugin/datasource/README.md", "tests/benchmarks/README.md"]
)
def test_no_link_is_dead(page):
    """Links within docs/ are checked by `mkdocs build --strict`."""
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text(encoding="utf-8"))
    assert links or page != "README.md"
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


@pytest.mark.slow
def test_the_generated_reference_is_up_to_date():
    done = subprocess.run([sys.executable, ".ci/reference.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_readme_is_a_doorway():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150


@pytest.mark.slow
def test_the_first_command_shows_the_table_of_the_guide(out):
    rows = re.findall(
        r"^\| ([A-Z]+-[\w-]+).*?\| ([\d.]+) \| ([\d.]+) \|", ANALYST.read_text(encoding="utf-8"), flags=re.M
    )
    assert len(rows) == 3
    for chunk, (document, relevance, boost) in zip(out["chunks"], rows):
        assert chunk["document_id"] == document
        assert chunk["_relevance_score"] == pytest.approx(float(relevance), abs=5e-5)
        assert chunk["_authority_boost"] == pytest.approx(float(boost))
    assert out["chunks"][0]["_provenance"]["extra"]["also_in"][0]["document_id"] == "NPA-SOP-003"
    assert len(out["chunks"]) <= 8


@pytest.mark.slow
def test_the_arithmetic_of_the_guide_is_that_of_the_answer(out):
    """`0.6 · 0.9103 + 0.4 · 0.30 = 0.6662` for the first three passages, in their order."""
    lines = re.findall(
        r"\| ([\d.]+) · ([\d.]+) \+ ([\d.]+) · ([\d.]+) = ([\d.]+) \|", ANALYST.read_text(encoding="utf-8")
    )
    assert len(lines) == 3
    for chunk, (weight, relevance, other, boost, final) in zip(out["chunks"], lines):
        assert chunk["_rag_score"] == float(final)
        assert float(weight) * float(relevance) + float(other) * float(boost) == pytest.approx(float(final), abs=1e-4)
        assert out["settings"]["relevance_weight"]["value"] == float(weight)
        assert out["settings"]["authority_weight"]["value"] == float(other)


@pytest.mark.slow
def test_the_figures_of_the_drawing_are_those_of_a_search(out):
    text = README.read_text(encoding="utf-8")
    (candidates,), (chunks,) = (
        re.findall(words, text) for words in (r"(\d+) candidates from each", r"(\d+) chunks, e")
    )
    weights = re.findall(r"final = ([\d.]+) relevance.*?\+ ([\d.]+) authority", text, flags=re.S)
    settings = {name: row["value"] for name, row in out["settings"].items()}
    assert (settings["stage1_top_k"], settings["stage2_top_k"]) == (int(candidates), int(chunks))
    assert weights == [(str(settings["relevance_weight"]), str(settings["authority_weight"]))]
    assert all(source["asked"] == int(candidates) for source in out["sources"])
    assert len(out["chunks"]) == int(chunks)


@pytest.mark.slow
def test_the_answer_is_as_the_readme_tells_it(home):
    """Procedure and register above the web article; the second procedure named as a copy."""
    out = run('.venv/bin/context-engine search "NPA classification criteria" --domain NPA', home)
    assert out.index("NPA-SOP-001") < out.index("NPA-REG-SCHEME") < out.index("NPA-WEB-001")
    assert "also in NPA-SOP-003" in " ".join(out.split())


def test_the_measurements_of_the_readme_are_those_of_the_guides():
    """The README's table stands in "How it compares", its figures of all questions there or in the guide to models."""
    readme = README.read_text(encoding="utf-8")
    guide = (ROOT / "docs/guides/models.md").read_text(encoding="utf-8")
    compared = (ROOT / "docs/compare.md").read_text(encoding="utf-8")
    change = r"(−?\.\d+|)(?: \([^|]*\))?"
    changed = r"^\| (\w+)[^|]* \| (?:\.\d+ \| \.\d+ \| )?" + rf"{change} ?\| {change} ?\| (\d+ ms) \|$"
    shown = re.findall(changed, readme, flags=re.M)
    assert [name for name, *_ in shown] == ["words", "LlamaIndex", "Haystack", "LangChain", "LanceDB", "PostgreSQL"]
    assert {*shown} <= {*re.findall(changed, compared, flags=re.M)}
    rows = re.compile(r"^\| ([\w`][^|]*?) \| (\.\d+) \| (\.\d+) \|$", flags=re.M)
    plain, adapted = re.findall(
        r"(\.\d+)[^()]*\((?:MAP@10 )?(\.\d+)\)", readme[readme.index("words and vectors find") :]
    )[:2]
    assert ("words and vectors", *plain) in rows.findall(compared)
    with_adapter = re.search(r"the base answers \.\d+ / \.\d+, and (\.\d+) / (\.\d+) with `max_sim`", guide)
    assert adapted == with_adapter.groups()
    told = re.findall(r"^\| (?:words|and) ?[^|]*\| (\.\d+)\b(?! /)[^|]*\| (\.\d+)", guide, flags=re.M)[:3]
    assert told == [row[1:] for row in rows.findall(compared)[:3]]
    held_out = r"^\| ([\w`][^|]*?) \| (\.\d+ / \.\d+) \| (\.\d+ / \.\d+) \|"
    ours = {row for row in re.findall(held_out, compared, flags=re.M) if row[0][0].islower()}
    assert len(ours) == 2
    assert ours <= set(re.findall(held_out, guide, flags=re.M))


@pytest.mark.slow
def test_the_access_guide(home):
    """Its rules and principals, with the user of these tests as operator."""
    me = pwd.getpwuid(os.getuid()).pw_name
    run(".venv/bin/context-engine init shared-bank", home)
    bank = home / "shared-bank"
    (bank / "manifests/handbook.yaml").write_text(BLOCKS["access-manifest"], encoding="utf-8")
    (bank / "config/access.yaml").write_text(BLOCKS["access-file"].replace("kb-admin", me), encoding="utf-8")
    code = BLOCKS["access"].replace("context-engine ", "../.venv/bin/context-engine ")
    out = " ".join(run(f"cd shared-bank && {code}", home).split())
    assert "✓ policies" in out
    assert "the source requires role auditor, or group travel-desk; cleared for confidential" in out
    access = BLOCKS["access-file"].replace("kb-admin", me) + BLOCKS["oidc"]
    (bank / "config/access.yaml").write_text(access, encoding="utf-8")
    tokens = BLOCKS["tokens"].replace("context-engine ", "../.venv/bin/context-engine ")
    out = run(f"cd shared-bank && {tokens}", home)
    assert "ce_" in out and "intranet-search" in out and "open" in out
    assert "HANDBOOK/tips" in (bank / "rules.cedar").read_text(encoding="utf-8")
    assert "travel-desk" in (bank / "access.html").read_text(encoding="utf-8")
    access = BLOCKS["access-file"].replace("kb-admin", me) + BLOCKS["sign-in"]
    (bank / "config/access.yaml").write_text(access, encoding="utf-8")
    login = "login:\n  base_url: https://id.bank.example\n  token_url: https://id.bank.example/token\n"
    (bank / "config/connections.yaml").write_text(f"{login}  client_id: pages\n  client_secret: ${{LOGIN}}\n", "utf-8")
    check = "../.venv/bin/context-engine config check"
    public = "CONTEXT_ENGINE_SERVER_PUBLIC_URL=https://search.bank.example"
    assert "✓ config/access.yaml" in run(f"cd shared-bank && LOGIN=secret-of-pages {public} {check}", home)


@pytest.mark.slow
def test_an_answer_is_the_sentence_of_the_guide_with_its_place(home):
    guide = (ROOT / "docs/guides/answers.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```text\n(A host clearance.*?)^```$", guide, flags=re.M | re.S)
    sentence, _, passage = shown.rstrip().splitlines()
    out = run(BLOCKS["ask"], home).splitlines()
    assert out[0] == sentence
    assert passage in out


@pytest.mark.slow
def test_tags_check(home):
    assert "8" in run(BLOCKS["tags"], home)


@pytest.mark.slow
def test_own_documents_then_python(home):
    assert "travel" in run(BLOCKS["own"], home).lower()
    out = run(BLOCKS["typed"], home, shell=False)
    assert out.startswith("1 ") and "[1]" in out


@pytest.mark.slow
def test_the_models_are_settings_that_are_known(home):
    run(".venv/bin/context-engine init models-bank", home)
    models = json.loads(BLOCKS["models"])
    embedder = {key: value for key, value in models.items() if key.startswith("embedder")}
    parts = (json.loads(BLOCKS[name]) for name in ("rerankers", "vector-form"))
    for settings in (*(embedder | part for part in parts), models):
        (home / "models-bank" / "config" / "rag-pipeline.json").write_text(json.dumps(settings), encoding="utf-8")
        out = run(".venv/bin/context-engine config check --config-dir models-bank", home)
        assert "1 domain can be searched" in out
    assert "bge-small-en-v1.5" in run(".venv/bin/context-engine config show --config-dir models-bank", home)


@pytest.mark.slow
def test_the_demo_is_measured(home):
    out = run(BLOCKS["eval"], home)
    assert "R@8" in out
    assert (home / "demo.md").is_file() and (home / "demo.html").is_file()


@pytest.mark.slow
def test_dify_to_the_letter(home):
    (home / "my-dify" / "config").mkdir(parents=True)
    (home / "my-dify" / "manifests").mkdir()
    (home / "my-dify" / "config" / "connections.yaml").write_text(BLOCKS["connections"], encoding="utf-8")
    (home / "my-dify" / "manifests" / "npa.yaml").write_text(BLOCKS["manifest"], encoding="utf-8")
    command = shlex.split(BLOCKS["dify-server"].replace("--port 5001", "--port 0"))
    with subprocess.Popen(command, cwd=home, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = server.stdout.readline().removeprefix("base_url:").strip()
            out = run(BLOCKS["dify"].replace("http://127.0.0.1:5001", url), home)
            handbook = _written_into(url, home)
        finally:
            server.terminate()
    assert "was created with Dify's economy index" in handbook and "Dify took 1 document" in handbook
    assert "A day of leave is asked for in writing." in handbook, "the search in the new dataset"
    assert "3 sources good" in out
    assert out.index("NPA-REG-SCHEME") < out.index("NPA-WEB-001"), "the system of record above the web"
    assert "NPA-SOP-001 3.2" in out
    assert "NPA-SOP-001 3.1" not in out, "the superseded version"
    assert "complete · answered" in out


def _written_into(url, home):
    """Follow the guide with a document of one's own; return what the ingest and a search print."""
    manifest = home / "my-dify" / "manifests" / "handbook.yaml"
    manifest.write_text(BLOCKS["dify-ingest-manifest"], encoding="utf-8")
    documents = home / "my-documents"
    documents.mkdir(exist_ok=True)
    (documents / "leave.md").write_text("# Leave\n\nA day of leave is asked for in writing.\n", encoding="utf-8")
    exports = f"export DIFY_BASE_URL={url} DIFY_API_KEY=dataset-demo\n"
    check = ".venv/bin/context-engine config check --config-dir my-dify\n"
    search = ".venv/bin/context-engine search 'How is leave asked for?' --domain HANDBOOK --config-dir my-dify"
    return run(f"{exports}{check}{BLOCKS['dify-ingest'].rstrip()} 2>&1\n{search}", home)


@pytest.mark.slow
def test_the_plugin_is_packed(home):
    for name in ("dify_plugin", "context_engine"):
        shutil.copytree(README.parent / name, home / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(README.parent / name, home)
    out = run(BLOCKS["plugin"], home)
    assert "no rule is broken" in out
    assert (home / "dist" / "context_engine-0.1.0.difypkg").stat().st_size > 100_000


@pytest.mark.slow
def test_dicts(home):
    score, kind = run(BLOCKS["dicts"], home, shell=False).splitlines()[0].split()
    assert (float(score), kind) == (round(0.6 * 0.82 + 0.4 * 0.30, 4), "bank_sop")


@pytest.mark.slow
def test_who_asks_is_said_by_a_program(home):
    assert run(BLOCKS["principal"], home, shell=False) == "confidential None\n"


@pytest.mark.slow
def test_the_adapter_passes_the_conformance_suite_in_30_lines(home):
    assert len([line for line in BLOCKS["adapter"].splitlines() if line.strip()]) <= 30
    (home / "test_glossary.py").write_text(BLOCKS["adapter"] + "\n\n" + BLOCKS["contract"], encoding="utf-8")
    code = "import pytest, sys; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', 'test_glossary.py']))"
    assert re.search(r"\b1[0-9] passed", run(code, home, shell=False))
