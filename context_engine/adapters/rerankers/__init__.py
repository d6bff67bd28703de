"""Adapters to models that read query and text together.

Which one to take (`reranker` and `reranker_options` in rag-pipeline.json):

- `cross_encoder` with `cross-encoder/ms-marco-MiniLM-L-6-v2` (80 MB) for English on a CPU; `-L-12-v2` has twice the
  layers and is half as fast. With `"runtime": "onnx"` and a folder it needs no torch.
- `tei`, `jina` or `cohere` where a model runs on a server: the way to a multilingual one (`BAAI/bge-reranker-v2-m3`).
- `max_sim` where an embedder is there already and no other model may come in.
- `llm` last: slow, dear, and open to what passages say.
- `ensemble` takes the weighted mean of several; `adaptive` asks another only where it may change something.

Scores are in [0, 1] and enter as relevance = rerank_weight * stage 1 + (1 - rerank_weight) * score. A reranker that
fails, or is late for the search's deadline, leaves the first stage's order, and the result is degraded.
"""

from context_engine.adapters.rerankers.simple import CallableReranker, NoOpReranker

__all__ = ["CallableReranker", "NoOpReranker"]
