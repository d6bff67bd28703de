"""The guides of the service and of the RAG API: the service is started as they say, and asked as they say."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from context_engine.apps.cli.serve import serve
from tests.e2e.serving import TOKEN, served

ROOT = Path(__file__).resolve().parents[2]
GUIDES = "".join((ROOT / "docs/guides" / name).read_text("utf-8") for name in ("service.md", "rag-api.md"))


def block(name):
    (found,) = re.findall(rf"^<!-- {name} -->\n```\w+\n(.*?)^```$", GUIDES, flags=re.M | re.S)
    return found


def starts():
    """The options of each `serve` of the guide, in their order."""
    lines = (line.partition("#")[0] for line in block("serve").splitlines())
    return [shlex.split(line.partition(" serve ")[2]) for line in lines if " serve " in line]


def test_its_extras_and_options_are_known():
    install, *_ = block("serve").splitlines()
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    (extras,) = re.findall(r"\[([\w,]+)\]", install)
    assert all(re.search(rf"^{extra} = \[", project, flags=re.M) for extra in extras.split(","))
    demo, bank = (serve.make_context("serve", options).params for options in starts())
    assert demo["demo"] and demo["no_auth"]
    assert bank["host"] == "0.0.0.0" and bank["config_dir"] and not bank["no_auth"]


@pytest.mark.slow
def test_the_demo_is_served_and_asked(tmp_path):
    (tmp_path / "request.json").write_text(block("request"), encoding="utf-8")
    options = [option for option in starts()[0] if option != "--no-auth"]
    with served(tmp_path, *options, "--log-format", "json", XDG_DATA_HOME=str(tmp_path)) as service:
        asked = block("curl").replace("127.0.0.1:8000", f"127.0.0.1:{service.port}")
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "CONTEXT_ENGINE_API_TOKEN": TOKEN}
        done = subprocess.run(["bash", "-c", asked], cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
        answer = json.loads(done.stdout)
        last = next(line for line in reversed(service.said) if "listening on" in line)
        assert json.loads(last)["level"] == "INFO", "what is said at the start is a part of the log"
        assert answer["decision"] == "answered" and answer["chunks"][0]["citation_label"] == "[1]"
