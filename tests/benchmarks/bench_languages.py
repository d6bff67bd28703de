"""Does a question in another language find its English passage: by words, and by the vectors of several models.

    python tests/benchmarks/bench_languages.py FOLDER [--embedder NAME [OPTIONS]] ...

FOLDER holds the texts that `foreign_questions.jsonl` asks about, and others; files of any suffix are read as Markdown.
Each line of that file has a question in English, German, French and Chinese, written before any measurement. Printed
are, for each language, how many questions have a passage of their file among the first ten, the CPU ms per passage and
question, and the MB that the loaded model takes. NAME and OPTIONS (JSON) are `embedder` and `embedder_options` of the
configuration; the text's weight is the default, so vectors are searched with words.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from bench_answers import READ_AS_MARKDOWN

from context_engine.adapters.embedders import known_model
from context_engine.adapters.model_access import ModelContext
from context_engine.adapters.sources.local import LocalBase, SearchOptions
from context_engine.core.models import SourceSpec, SourceType
from context_engine.core.protocols import Embedder
from context_engine.ingest.run import ingest
from context_engine.settings.connections import Connection
from context_engine.testing import FixedClock
from context_engine.wiring.models import open_embedder

QUESTIONS = Path(__file__).parent / "foreign_questions.jsonl"
LANGUAGES = ("en", "de", "fr", "zh")
FIRST = 10
SPEC = SourceSpec.model_validate({"id": "policies", "type": SourceType.BANK_SOP, "documents": [{"include": "**/*.md"}]})


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("corpus", type=Path)
    options.add_argument("--embedder", nargs="+", action="append", default=[], metavar=("NAME", "OPTIONS"))
    given = options.parse_args()
    rows = [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()]
    print(f"{len(rows)} questions, found in the first {FIRST}\n")
    print(f"{'':36}{'  '.join(LANGUAGES)}   CPU ms: passage  question    MB")
    with tempfile.TemporaryDirectory() as folder:
        files = copied(given.corpus, Path(folder) / "files")
        report("words", rows, files, Path(folder) / "words", None)
        for number, (name, *rest) in enumerate(given.embedder):
            model = opened(name, json.loads(rest[0]) if rest else {}, Path(folder))
            report(name, rows, files, Path(folder) / str(number), model)


def copied(corpus: Path, files: Path) -> Path:
    """Copy the corpus, each file named as Markdown."""
    for file in sorted(corpus.rglob("*")):
        if file.is_file() and file.suffix in READ_AS_MARKDOWN:
            copy = files / f"{file.relative_to(corpus).as_posix()}.md"
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    return files


def opened(name: str, options: dict[str, Any], data: Path) -> Embedder:
    def none(wanted: str) -> Connection:
        raise SystemExit(f"no connection {wanted}: name an embedder that runs in this process")

    context = ModelContext(connection=none, clock=FixedClock(), data_dir=lambda: data)
    return open_embedder(name, {"cache": False, "query_cache": 0, **options}, context)


def report(name: str, rows: Sequence[dict[str, Any]], files: Path, folder: Path, model: Embedder | None) -> None:
    """Print a line for words alone, or two for a model: its vectors with words and alone."""
    before = resident()
    with LocalBase.open(folder, create=True, embedder=model) as base:
        started = time.process_time()
        with base.writer() as writer:
            ingest(files, [SPEC], writer, source_id=SPEC.id)
        passages = base.stats().chunks
        writing = 1000 * (time.process_time() - started) / passages
    for kind, options in {"": {}, ", vectors alone": {"keyword_weight": 0.0}}.items():
        if model is None and kind:
            return
        search = SearchOptions(cosine_floor=known_model(name).floor, **options)
        with LocalBase(folder, embedder=model, options=search) as base:
            started = time.process_time()
            counts = [sum(is_found(base, row[language], row["file"]) for row in rows) for language in LANGUAGES]
            asking = 1000 * (time.process_time() - started) / len(rows) / len(LANGUAGES)
        places = "  ".join(f"{count:2}" for count in counts)
        print(f"{name + kind:36}{places}   {writing:15.1f} {asking:9.1f} {resident() - before:5.0f}", flush=True)
    print(f"{passages} passages")


def is_found(base: LocalBase, question: str, file: str) -> bool:
    chunks = base.search(question, source_id=SPEC.id, top_k=FIRST)
    return any(chunk.metadata.get("source_file") == f"{file}.md" for chunk in chunks)


def resident() -> float:
    """Return the memory of this process, in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()
