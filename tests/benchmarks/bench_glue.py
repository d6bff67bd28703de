"""CPU of the glue between recall and a prompt: 5 lists of 40 chunks in, 8 ranked chunks out, nodes built on every side.

    pip install -e '.[bench]' && python tests/benchmarks/bench_glue.py [--rounds 40]

Ours is the whole of stage 2 with exact dedup: identity, re-checks, relevance, dedup, threshold, authority, order, the
fate of each of the 200 candidates, the swap report and the tags of the 8. The others do their documented fusion:
LlamaIndex QueryFusionRetriever (reciprocal_rerank), SimilarityPostprocessor and LongContextReorder; Haystack
DocumentJoiner (reciprocal rank fusion), MetaFieldRanker and LostInTheMiddleRanker, called directly and as a Pipeline;
LangChain EnsembleRetriever. None of the others keeps fates, tags or an authority. Rounds are interleaved; the least and
the median CPU time of a round are printed, and the ratio of the medians to ours.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from statistics import median

LISTS, LENGTH, TOP = 5, 40, 8


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=40)
    rounds = options.parse_args().rounds
    texts = made_texts()
    contestants: dict[str, Callable[[], object]] = {"context_engine stage 2": ours(texts)}
    for name, make in (("LlamaIndex", llama_index), ("Haystack", haystack), ("LangChain", langchain)):
        try:
            contestants |= make(texts)
        except ImportError as error:
            print(f"{name}: not installed ({error.name}); pip install -e '.[bench]'")
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds + 3):
        for name, run in contestants.items():
            started = time.process_time()
            run()
            times[name].append((time.process_time() - started) * 1000)
    base = median(times["context_engine stage 2"][3:])
    for name, measured in times.items():
        kept = measured[3:]
        print(f"{name:34} least {min(kept):7.3f} ms   median {median(kept):7.3f} ms   x {median(kept) / base:5.2f}")


def made_texts() -> list[str]:
    """Return 200 texts of about 2.3 kB, a tenth of them exact copies of others."""
    rng = random.Random(1)
    words = [f"word{number}" for number in range(5000)]
    texts = [" ".join(rng.choice(words) for _ in range(260)) for _ in range(LISTS * LENGTH * 9 // 10)]
    return texts + texts[: LISTS * LENGTH - len(texts)]


def ours(texts: list[str]) -> Callable[[], object]:
    from context_engine.core.engine.candidate_table import StageTwoInput
    from context_engine.core.engine.search_plan import ClockReading, SearchPlan
    from context_engine.core.engine.stage2 import rank
    from context_engine.core.models import (
        Chunk,
        EffectiveSettings,
        RawAnswer,
        Score,
        ScoreKind,
        SearchRequest,
        Settings,
        SourceSpec,
        SourceType,
    )

    now = datetime.now(UTC)
    specs = tuple(SourceSpec(id=f"s{number}", type=kind) for number, kind in enumerate(SourceType))
    plan = SearchPlan(
        request=SearchRequest(query="word1 word2", domain="D"),
        specs=specs,
        effective=EffectiveSettings(values=Settings(dedup_method="exact", stage2_top_k=TOP), origins={}),
        prepared=None,
        clock=ClockReading.at(now, UTC, None),
        search_id="0",
    )

    def run() -> object:
        answers = []
        for number, spec in enumerate(specs):
            chunks = [
                Chunk(
                    content=texts[number * LENGTH + place],
                    chunk_id=f"{number}-{place}",
                    scores=(Score(ScoreKind.RELEVANCE, 1 - place / 50),),
                    metadata={"n": place},
                )
                for place in range(LENGTH)
            ]
            answers.append(RawAnswer(source_id=spec.id, chunks=tuple(chunks), retrieved_at=now))
        return rank(StageTwoInput(plan, tuple(answers)))

    return run


def llama_index(texts: list[str]) -> dict[str, Callable[[], object]]:
    from llama_index.core.llms.mock import MockLLM
    from llama_index.core.postprocessor import LongContextReorder, SimilarityPostprocessor
    from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
    from llama_index.core.schema import NodeWithScore, TextNode

    class Fixed(BaseRetriever):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

        def _retrieve(self, query_bundle: object) -> list:
            return [
                NodeWithScore(
                    node=TextNode(
                        text=texts[self.number * LENGTH + place], id_=f"{self.number}-{place}", metadata={"n": place}
                    ),
                    score=1 - place / 50,
                )
                for place in range(LENGTH)
            ]

    fusion = QueryFusionRetriever(
        [Fixed(number) for number in range(LISTS)],
        llm=MockLLM(),
        num_queries=1,
        mode="reciprocal_rerank",
        similarity_top_k=TOP,
        use_async=False,
    )
    cutoff, reorder = SimilarityPostprocessor(similarity_cutoff=0.0), LongContextReorder()

    def run() -> object:
        return reorder.postprocess_nodes(cutoff.postprocess_nodes(fusion.retrieve("word1 word2")))

    return {"LlamaIndex": run}


def haystack(texts: list[str]) -> dict[str, Callable[[], object]]:
    from haystack import Document, Pipeline, component
    from haystack.components.joiners import DocumentJoiner
    from haystack.components.rankers import LostInTheMiddleRanker, MetaFieldRanker

    def made(number: int) -> list:
        return [
            Document(content=texts[number * LENGTH + place], meta={"n": place}, score=1 - place / 50)
            for place in range(LENGTH)
        ]

    @component
    class Fixed:
        def __init__(self, number: int) -> None:
            self.number = number

        @component.output_types(documents=list[Document])
        def run(self, query: str) -> dict:
            return {"documents": made(self.number)}

    def parts() -> tuple:
        joiner = DocumentJoiner(join_mode="reciprocal_rank_fusion", top_k=TOP)
        return joiner, MetaFieldRanker(meta_field="n", weight=0.4), LostInTheMiddleRanker()

    joiner, ranker, reorder = parts()
    pipeline = Pipeline()
    for name, part in zip(("joiner", "ranker", "order"), parts()):
        pipeline.add_component(name, part)
    for number in range(LISTS):
        pipeline.add_component(f"source{number}", Fixed(number))
        pipeline.connect(f"source{number}.documents", "joiner.documents")
    pipeline.connect("joiner.documents", "ranker.documents")
    pipeline.connect("ranker.documents", "order.documents")
    asked = {f"source{number}": {"query": "word1 word2"} for number in range(LISTS)}

    def direct() -> object:
        found = joiner.run(documents=[made(number) for number in range(LISTS)])["documents"]
        return reorder.run(documents=ranker.run(documents=found)["documents"])

    return {"Haystack, called directly": direct, "Haystack, Pipeline.run": lambda: pipeline.run(asked)}


def langchain(texts: list[str]) -> dict[str, Callable[[], object]]:
    from langchain_classic.retrievers import EnsembleRetriever
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    class Fixed(BaseRetriever):
        number: int

        def _get_relevant_documents(self, query: str, *, run_manager: object) -> list:
            return [
                Document(page_content=texts[self.number * LENGTH + place], metadata={"n": place})
                for place in range(LENGTH)
            ]

    ensemble = EnsembleRetriever(retrievers=[Fixed(number=number) for number in range(LISTS)])
    return {"LangChain EnsembleRetriever": lambda: ensemble.invoke("word1 word2")[:TOP]}


if __name__ == "__main__":
    main()
