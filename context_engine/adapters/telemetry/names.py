"""The names that spans carry, pinned here: a new revision of a convention changes this file alone.

The GenAI and HTTP names are those of the OpenTelemetry semantic conventions 1.44.0, in which `gen_ai.*` is still in
development; there is no operation for a rerank. The OpenInference names, which Phoenix and Langfuse draw documents and
messages from, are those of its semantic conventions 0.1.42. What neither names begins with `context_engine.`.
"""

from __future__ import annotations

from typing import Final

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"

OPERATION: Final = "gen_ai.operation.name"
RETRIEVAL: Final = "retrieval"
CHAT: Final = "chat"
DATA_SOURCE: Final = "gen_ai.data_source.id"
TOP_K: Final = "gen_ai.request.top_k"
QUERY_TEXT: Final = "gen_ai.retrieval.query.text"
REQUEST_MODEL: Final = "gen_ai.request.model"
MAX_TOKENS: Final = "gen_ai.request.max_tokens"
TEMPERATURE: Final = "gen_ai.request.temperature"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"

METHOD: Final = "http.request.method"
ROUTE: Final = "http.route"
STATUS_CODE: Final = "http.response.status_code"
ERROR_TYPE: Final = "error.type"

SPAN_KIND: Final = "openinference.span.kind"
CHAIN: Final = "CHAIN"
RETRIEVER: Final = "RETRIEVER"
RERANKER: Final = "RERANKER"
LLM: Final = "LLM"
INPUT: Final = "input.value"
OUTPUT: Final = "output.value"
MODEL_NAME: Final = "llm.model_name"
PROMPT_TOKENS: Final = "llm.token_count.prompt"
COMPLETION_TOKENS: Final = "llm.token_count.completion"
TOTAL_TOKENS: Final = "llm.token_count.total"
INPUT_MESSAGES: Final = "llm.input_messages"
OUTPUT_MESSAGES: Final = "llm.output_messages"

SEARCH_ID: Final = "context_engine.search_id"
REQUEST_ID: Final = "context_engine.request_id"
STATUS: Final = "context_engine.status"
DECISION: Final = "context_engine.decision"
CANDIDATES: Final = "context_engine.candidates"
CHUNKS: Final = "context_engine.chunks"
FAILED_SOURCES: Final = "context_engine.failed_sources"
STAGE: Final = "context_engine.stage"
ENTERED: Final = "context_engine.stage.entered"
LEFT: Final = "context_engine.stage.left"
ANSWER_MODE: Final = "context_engine.answer.mode"
ANSWER_REFUSAL: Final = "context_engine.answer.refusal"
SENTENCES: Final = "context_engine.answer.sentences"
SUPPORTED: Final = "context_engine.answer.supported"


def document(number: int, field: str) -> str:
    """Return the OpenInference name of a field of a retrieved document: id, score, content or metadata.

    Args:
        number: 0-based.
    """
    return f"retrieval.documents.{number}.document.{field}"


def message(prefix: str, number: int, field: str) -> str:
    """Return the OpenInference name of a field of a message: role or content.

    Args:
        prefix: INPUT_MESSAGES or OUTPUT_MESSAGES.
        number: 0-based.
    """
    return f"{prefix}.{number}.message.{field}"
