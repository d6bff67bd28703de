"""Adapters to models that read query and text together.

Which one to choose (`reranker` and `reranker_options` in rag-pipeline.json):

- `cross_encoder` with `cross-encoder/ms-marco-MiniLM-L-6-v2` (80 MB) for English on a CPU; `-L-12-v2` has twice the
  layers and is half as fast. With `"runtime": "onnx"` and a folder it needs no torch.
- `tei`, `jina` or `cohere` for a model on a server, for example a multilingual one (`BAAI/bge-reranker-v2-m3`).
- `max_sim` if there is an embedder and no other model may be added.
- `llm` last: slow, expensive, and open to instructions in passages.
- `ensemble` takes the weighted mean of several; `adaptive` calls another only if it may change something.

Scores are in [0, 1] and enter as relevance = rerank_weight * stage 1 + (1 - rerank_weight) * score. If a reranker fails
or exceeds the search's deadline, the first stage's order stands and the result is degraded.
"""

from context_engine.adapters.rerankers.simple import CallableReranker, NoOpReranker

__all__ = ["CallableReranker", "NoOpReranker"]
