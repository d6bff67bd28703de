"""Namespaces of a store under the connection `zerodb`, by the guide's files and commands; removed from every row."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from context_engine.core.models import Chunk
from context_engine.core.protocols import ScrubbingSink

pytestmark = pytest.mark.slow

GUIDE = (Path(__file__).resolve().parents[3] / "docs/guides/namespaces.md").read_text("utf-8")
CONNECTION, MANIFEST, PERSONAS, COMMANDS = re.findall(r"^```\w+\n(.*?)^```$", GUIDE, flags=re.M | re.S)[2:]
WORD = "Zanzibar"


def holding(dsn: str, schema: str, word: str) -> Iterator[str]:
    """Yield the tables of a schema with a row that holds a word in any case."""
    with psycopg.connect(dsn) as session:
        names = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s"
        for (table,) in session.execute(names, (schema,)).fetchall():
            rows = session.execute(
                f'SELECT count(*) FROM "{schema}"."{table}" AS row WHERE row::text ILIKE %s', (f"%{word}%",)
            )
            if rows.fetchone() != (0,):
                yield table


def test_the_connection_zerodb_is_served_as_the_guide_says(plain_server: Any, tmp_path: Path) -> None:
    dsn = plain_server.dsn("postgres")
    server = urlsplit(dsn)
    lines = {
        "base_url": f"postgresql://{server.hostname}:{server.port}{server.path}",
        "user": server.username,
        "api_key": server.password,
    }
    files = {
        "config/connections.yaml": "\n".join(["zerodb:", *(f"  {key}: {value}" for key, value in lines.items())]),
        "config/personas.json": PERSONAS,
        "manifests/library.yaml": MANIFEST,
        "my-library/primary/deed.md": "# Deed\n\nIt was agreed that the archive stays open.\n",
        "my-library/speeches/mayor.md": f"---\nspeaker: {WORD}\n---\n# Speech\n\n{WORD} said what was agreed.\n",
    }
    assert CONNECTION.startswith("zerodb:")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    ingest, search, remove = COMMANDS.splitlines()

    assert json.loads(run(f"{ingest} --json", tmp_path))["documents"] == 2
    found = json.loads(run(f"{search} --json", tmp_path))["chunks"]
    assert {chunk["_provenance"]["extra"]["namespace"] for chunk in found} == {"library_primary_sources"}
    both = json.loads(run(f"{search.replace('educator', 'researcher')} --json", tmp_path))["chunks"]
    assert {chunk["source_id"] for chunk in both} == {"primary_sources", "speeches"}
    assert {"words", "chunks", "attributes", "terms"} <= set(holding(dsn, "context_engine", WORD))

    run(remove, tmp_path)
    assert list(holding(dsn, "context_engine", WORD)) == []
    left = json.loads(run(f"{search.replace('educator', 'researcher')} --json", tmp_path))["chunks"]
    assert {chunk["source_id"] for chunk in left} == {"primary_sources"}


def run(command: str, folder: Path) -> str:
    env = {key: value for key, value in os.environ.items() if not key.startswith("CONTEXT_ENGINE_")}
    env |= {"HOME": str(folder), "PATH": f"{Path(sys.executable).parent}:{env['PATH']}", "NO_COLOR": "1"}
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_other_documents_share_stays(vector_store: Any) -> None:
    """With vectors too: the owner of both documents stays a value to filter by, that of one goes."""
    with vector_store.sink() as sink:
        for name, owner in (("a", WORD), ("b", "desk")):
            chunk = Chunk(content=f"The limit of {name}.", metadata={"owner": owner, "kind": "limit"})
            sink.put("notes", name, "", "1", [chunk])
        sink.commit()
        sink.delete("notes", "a", "")
        assert isinstance(sink, ScrubbingSink) and "VACUUM FULL" in sink.scrub()
        with psycopg.connect(vector_store.dsn) as session:
            rows = session.execute(f"SELECT name, value FROM {vector_store.schema}.attributes WHERE value <> ''")
            values = {value for name, value in rows.fetchall() if name in ("owner", "kind")}
        assert values == {'"desk"', '"limit"'}
        assert sink.put("notes", "c", "", "1", [Chunk(content="Anew.", metadata={"owner": WORD})]), (
            "numbers are made anew"
        )
    assert list(holding(vector_store.dsn, vector_store.schema, WORD))
