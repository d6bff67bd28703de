"""The settings of a deployment: cost, audit record, privacy, events, quality, HTTP service, reading of files."""

# Annotations are values here: as text, pydantic would evaluate each again for every class that inherits it.
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from context_engine.core.models.chat import Money, Prices

Flag = Annotated[bool, Field(strict=True)]


class SettingsGroup(BaseModel):
    """Settings that take effect together, for the same searches."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")


class DomainCostLimits(SettingsGroup):
    """The most that the chat model may cost in one domain, in the currency of the prices; the same for all callers."""

    cost_limit_request: Money | None = Field(None, description="Most money for the model calls of one request.")
    cost_limit_job: Money | None = Field(None, description="Most money for the model calls of one job.")
    cost_limit_domain_day: Money | None = Field(
        None, description="Most money for the model calls of one domain on a day of its time zone."
    )


class CostSettings(DomainCostLimits):
    """What the chat model costs, and the most that may be spent. A call that could exceed a limit is not made."""

    prices: Prices = Field(
        (), description="Prices of models; the newest that is valid counts. A limit needs the price of the model."
    )
    cost_limit_day: Money | None = Field(
        None, description="Most money for the model calls of all domains on a day of UTC."
    )


QueryForm = Literal["text", "digest", "none"]


class KeptRecords(SettingsGroup):
    """What is recorded of a domain's searches, and for how long; the same for all callers."""

    audit_query: QueryForm = Field(
        "text",
        description="The question in the record: text (it can be erased), digest (anyone with the question can replay "
        "the record; without an audit key anyone with the ledger can test guesses), none (no replay).",
    )
    audit_retention_days: Annotated[int, Field(strict=True, ge=1, le=36_500)] | None = Field(
        None, description="Age in days from which 'audit prune' removes records; null: nothing is removed."
    )


class AuditSettings(KeptRecords):
    """The record of searches; no call, persona or domain can turn it off."""

    audit_mode: Literal["off", "best_effort", "required"] | None = Field(
        None,
        description="off; best_effort: an answer does not wait for its record, and losses are counted; required: no "
        "answer without a record. Null: best_effort if CONTEXT_ENGINE_AUDIT_LEDGER names a ledger, else off.",
    )
    audit_origin: Annotated[str, Field(pattern=r"^[^\s+]{1,200}$")] = Field(
        "context-engine/audit", description="Name of the log in its checkpoints, e.g. audit.bank.example/retrieval."
    )
    audit_buffer: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = Field(
        1000, description="Records that may wait to be written under best_effort; further ones are lost and counted."
    )
    audit_timeout_s: Annotated[float, Field(strict=True, gt=0.0, le=60.0, allow_inf_nan=False)] = Field(
        5.0, description="Seconds that an answer waits for its record under required."
    )
    audit_checkpoint_records: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] = Field(
        1000, description="A checkpoint is made after this many records ..."
    )
    audit_checkpoint_s: Annotated[float, Field(strict=True, gt=0.0, le=86_400.0, allow_inf_nan=False)] = Field(
        300.0, description="... or after this many seconds, if there are new records."
    )
    audit_checkpoint_file: str | None = Field(
        None, description="File that each checkpoint is appended to; keep it where the ledger's writers cannot write."
    )
    audit_checkpoint_command: Annotated[tuple[str, ...], Field(strict=False, min_length=1)] | None = Field(
        None, description="Program and arguments; it receives each checkpoint on standard input."
    )
    audit_strict: bool = Field(
        False,
        strict=True,
        description="Whether 'audit verify' fails without a checkpoint kept elsewhere or a witness, as --strict does.",
    )
    audit_witnesses: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (),
        description="tlog-witness servers that cosign each checkpoint, as CONNECTION=NAME+HASH+KEY: how each is "
        "reached, and the verifier key that its operator publishes.",
    )


PersonalDataKind = Literal["card", "iban", "national_id", "phone", "email"]
PERSONAL_DATA_KINDS: Final[tuple[PersonalDataKind, ...]] = get_args(PersonalDataKind)
MASK_CONTEXTS: Final = "mask_contexts"
"""The setting, and the mark in a chunk's tag: its text must not reach a model unmasked."""

Texts = Annotated[tuple[str, ...], Field(strict=False)]
AnswerPolicy = Literal["show", "mark", "withhold", "refuse"]
"""What happens to a sentence that its quotes do not support, from loose to strict: shown as it is, shown with a mark,
left out, or the whole answer refused."""
LanguageCode = Annotated[str, Field(pattern=r"^[a-z]{2}$")]


class AnswerSettings(SettingsGroup):
    """How questions of one domain are answered; the same for all callers."""

    answer_unsupported: AnswerPolicy = Field(
        "withhold",
        description="Sentences of a chat model that their passages do not support: show, mark, withhold, or refuse the "
        "whole answer. A request may only be stricter.",
    )
    workflow: Literal["simple", "agentic"] = Field(
        "simple",
        description="How the passages of an answer are found: simple: one search; agentic: searches again "
        "for parts of the question, for what passages cite, and for what is missing.",
    )
    workflow_policy: Literal["rules", "model"] = Field(
        "rules", description="What decides the next search of an agentic workflow: rules, or the chat model."
    )
    workflow_rounds: Annotated[int, Field(strict=True, ge=1, le=20)] = Field(
        6, description="Most searches of an agentic workflow; a request may ask for fewer."
    )
    workflow_hops: Annotated[int, Field(strict=True, ge=0, le=2)] = Field(
        1, description="Most citations that an agentic workflow follows one after the other; 0: none."
    )
    workflow_deadline_s: Annotated[float, Field(strict=True, gt=0.0, le=600.0, allow_inf_nan=False)] = Field(
        60.0, description="Seconds after which an agentic workflow begins no search."
    )
    workflow_languages: Annotated[tuple[LanguageCode, ...], Field(strict=False, max_length=4)] = Field(
        (),
        description="Languages of the documents (ISO 639-1): an agentic workflow also searches a question in another "
        "language as the chat model translates it.",
    )


class MaskedOutputs(SettingsGroup):
    """What is masked in one domain; the same for all callers."""

    mask_contexts: Flag = Field(
        False,
        description="Mask personal data in everything sent to a model: contexts, outputs of the Dify plugin, texts for "
        "a reranker.",
    )
    mask_stored_queries: Flag = Field(
        False,
        description="Mask personal data in stored questions, and in what a chat model answered: in the record and in "
        "files of judgements.",
    )


class PrivacySettings(MaskedOutputs):
    """What is masked, and where; no call and no persona can change it."""

    mask_logs: Flag = Field(False, description="Mask personal data in the log records of this process.")
    mask_kinds: Annotated[tuple[PersonalDataKind, ...], Field(strict=False)] = Field(
        PERSONAL_DATA_KINDS, description="Which kinds are masked."
    )
    mask_countries: Texts = Field(
        (), description="Countries whose national ids are masked, as ISO 3166 codes, e.g. SG."
    )
    mask_phone_regions: Texts = Field(
        (), description="Countries for telephone numbers without +; none: only numbers with + are masked."
    )
    mask_patterns: Mapping[str, str] = Field(
        default_factory=dict, description="Own patterns: name (part of the pseudonym) to regular expression."
    )
    mask_allow: Texts = Field(
        (), description="Values that are never masked, e.g. the bank's hotline; @bank.example: all its addresses."
    )
    maskers: Mapping[str, Mapping[str, Any]] = Field(
        default_factory=dict, description="Further maskers, e.g. of names: name of the installed masker to its options."
    )


class TelemetrySettings(SettingsGroup):
    """What traces show of the work, by OpenTelemetry; no call, persona or domain can change it."""

    tracing: Flag = Field(
        False,
        description="Send the spans of requests, searches, answers and their calls over OTLP/HTTP; the variables "
        "OTEL_* say where to. Needs the extra otel.",
    )
    trace_content: Flag = Field(
        False,
        description="Show questions, passages, prompts and answers in spans, masked if anything is; else only ids, "
        "counts, scores and names.",
    )


class EventSettings(SettingsGroup):
    """Where events go, such as a changed answer that somebody subscribed to; the same for all callers."""

    event_sinks: Mapping[str, Mapping[str, Any]] = Field(
        default_factory=dict,
        description='Receivers of events: file ({"path": "/var/log/context-engine/events.jsonl"}), webhook '
        '({"connection": NAME}), or another installed one, each with its options.',
    )
    event_source: Annotated[str, Field(pattern=r"^[A-Za-z0-9/._:~-]{1,200}$")] = Field(
        "context-engine", description="Name of this deployment in its events, such as https://search.bank.example."
    )


class Experiment(BaseModel):
    """Two settings served to different callers of a domain, who judge what they get."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    domain: Annotated[str, Field(min_length=1)]
    a: Mapping[str, Any] = Field(default_factory=dict, description="Settings of a search for one half of the callers.")
    b: Mapping[str, Any] = Field(default_factory=dict, description="Settings of a search for the other half.")
    alpha: Annotated[float, Field(gt=0.0, lt=0.5)] = Field(
        0.05, description="Probability of a difference being claimed where there is none."
    )
    most_pairs: Annotated[int, Field(strict=True, ge=10, le=1_000_000)] = Field(
        1000, description="Pairs of judging callers after which it ends without a difference."
    )


def _one_for_each_domain(experiments: Mapping[str, Experiment]) -> Mapping[str, Experiment]:
    domains = [experiment.domain for experiment in experiments.values()]
    twice = next((domain for domain in domains if domains.count(domain) > 1), None)
    if twice is not None:
        raise ValueError(f"has two experiments for {twice}: their effects could not be told apart; keep one")
    return experiments


def _without_path(url: str) -> str:
    """Return the address of a service: scheme, host and port."""
    if not re.fullmatch(r"https?://(\[[0-9A-Fa-f:.]+\]|[^\s/?#@:\[\]]+)(:\d{1,5})?/?", url):
        raise ValueError(
            "must be http or https, a host and perhaps a port, such as https://search.bank.example: the pages need a "
            "name of their own and are not served below a path"
        )
    return url.rstrip("/")


ExperimentName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,59}$")]


class QualitySettings(SettingsGroup):
    """How the quality of searches is watched and compared over time; the same for all callers."""

    quality_check_s: Annotated[float, Field(strict=True, ge=0.0, le=86_400.0, allow_inf_nan=False)] = Field(
        0.0, description="Seconds between two looks of the service at the new records; 0: it does not look."
    )
    quality_past_days: Annotated[int, Field(strict=True, ge=7, le=3660)] = Field(
        90, description="Days of records with which the newest are compared, from a Monday on."
    )
    quality_run_length: Annotated[int, Field(strict=True, ge=100, le=1_000_000_000)] = Field(
        50_000, description="Outcomes of one figure between two false alarms, at least on average."
    )
    experiments: Annotated[Mapping[ExperimentName, Experiment], AfterValidator(_one_for_each_domain)] = Field(
        default_factory=dict,
        description='Settings that are compared by judgements, by name: {"deep": {"domain": "NPA", "b": '
        '{"rerank_by": "deep"}}}; one for each domain.',
    )
    experiment_arm: str = Field(
        "", description="The experiment and the arm of a search, as NAME/a; `experiments` sets it, nobody else should."
    )


class JobSettings(SettingsGroup):
    """Where jobs are kept; the same for all callers."""

    jobs_connection: Annotated[str, Field(min_length=1)] | None = Field(
        None,
        description="Connection of the PostgreSQL database that keeps the jobs with their documents, so that replicas "
        "share them; null: the data folder of one machine.",
    )


class CacheSettings(SettingsGroup):
    """How much of this process the cache of answers may use; `cache_ttl_s` says which answers it keeps."""

    cache_memory_mb: Annotated[int, Field(strict=True, ge=1, le=65_536)] = Field(
        64, description="Megabytes of kept answers in this process, about; the longest unused ones are dropped."
    )


class ServerSettings(SettingsGroup):
    """The HTTP and MCP service; read at the start and whenever SIGHUP reloads the configuration."""

    server_max_concurrent: Annotated[int, Field(strict=True, ge=1, le=1000)] = Field(
        16, description="Requests answered at the same time; further ones wait in a queue ..."
    )
    server_max_waiting: Annotated[int, Field(strict=True, ge=0, le=100_000)] = Field(
        256, description="... of this length; if it is full, the answer is 503 with Retry-After."
    )
    server_max_wait_s: Annotated[float, Field(strict=True, gt=0.0, le=600.0, allow_inf_nan=False)] = Field(
        5.0,
        description="A search that would wait longer for its turn, or longer than its deadline_s, is refused at once "
        "with 503 and Retry-After. Dify's External Knowledge waits as long as Dify does.",
    )
    server_max_body_bytes: Annotated[int, Field(strict=True, ge=1024, le=100_000_000)] = Field(
        1_048_576, description="Longest body of a request; a longer one is refused with 413."
    )
    server_max_query_chars: Annotated[int, Field(strict=True, ge=1, le=10_000)] = Field(
        10_000, description="Longest question over HTTP and MCP."
    )
    server_max_top_k: Annotated[int, Field(strict=True, ge=1, le=1000)] = Field(
        100, description="Most chunks that a request over HTTP and MCP may ask for."
    )
    server_max_candidates: Annotated[int, Field(strict=True, ge=1, le=1000)] = Field(
        200, description="Most candidates of each source (`stage1_top_k`) that such a request may ask for."
    )
    server_max_deadline_s: Annotated[float, Field(strict=True, gt=0.0, le=600.0, allow_inf_nan=False)] = Field(
        60.0, description="Longest time for a search (`deadline_s`) that such a request may ask for."
    )
    server_rate_per_minute: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] = Field(
        6000, description="Requests a minute for each principal; above it 429 with RateLimit headers. 0: no limit."
    )
    server_rate_burst: Annotated[int, Field(strict=True, ge=1, le=100_000)] = Field(
        200, description="Requests that a principal may make at once before the rate limits it."
    )
    server_drain_s: Annotated[float, Field(strict=True, ge=0.0, le=300.0, allow_inf_nan=False)] = Field(
        1.0, description="Seconds between turning off readiness and closing the port, so that a load balancer notices."
    )
    server_stop_s: Annotated[float, Field(strict=True, gt=0.0, le=300.0, allow_inf_nan=False)] = Field(
        8.0, description="Seconds after SIGTERM for answering running requests and writing the records."
    )
    server_allowed_hosts: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (),
        description="Host names under which /mcp may be called, beside that of server_public_url; empty: those of this "
        "machine and of --host. If any are listed, every address that needs a token is served under them alone.",
    )
    server_allowed_origins: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (), description="Origins of web pages that may call /mcp, such as https://assistant.bank.example."
    )
    server_pages: Flag = Field(True, description="Serve the pages for people beside the API, at /; read at the start.")
    server_public_url: Annotated[str, AfterValidator(_without_path)] | None = Field(
        None,
        description="The address under which browsers reach the service, such as https://search.bank.example, without "
        "a path; with https, cookies are sent over nothing else. Read at the start.",
    )
    compare_mode: Flag = Field(
        False, description="Add the baseline to each answer of the RAG API; RAG_COMPARE_MODE sets it too."
    )
    compare_file: str | None = Field(
        None,
        description="File to which the service appends each comparison: a line of JSON, without texts and question.",
    )


Seconds = Annotated[float, Field(strict=True, gt=0.0, le=86_400.0, allow_inf_nan=False)]
Megabytes = Annotated[int, Field(strict=True, ge=64, le=65_536)]
Count = Annotated[int, Field(strict=True, ge=1, le=10_000_000_000)]


class IngestSettings(BaseModel):
    """Every setting of reading files with its default; keys are those of `ingest.json`."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    file_timeout_s: Seconds = Field(
        30.0,
        description="Seconds for reading and cutting one file; for a file of records, per 128 kB, "
        "as long as it yields something in that time. Then it is skipped and reported.",
    )
    file_memory_mb: Megabytes = Field(
        512, description="Megabytes of memory for reading and cutting one file; else it is skipped and reported."
    )
    file_max_chars: Count = Field(
        100_000_000,
        description="Characters of text from one file, per 2 MB of its size; the document that exceeds them and "
        "the rest are skipped and reported.",
    )
    file_max_chunks: Count = Field(
        1_000_000,
        description="Chunks from one file, per 2 MB of its size; the document that exceeds them and the "
        "rest are skipped and reported.",
    )
    hidden_cells: Literal["skip", "read"] = Field(
        "skip",
        description="Hidden sheets, rows and columns of a workbook, and cells that their format hides: skip (and say "
        "how many) or read.",
    )
    tracked_changes: Literal["accept", "reject", "both"] = Field(
        "accept",
        description="Tracked changes of a Word file: accept (the new text), reject (the old one), or both, marked.",
    )
    ocr: Literal["off", "tesseract", "ocrmypdf"] = Field(
        "off",
        description="Text recognition of PDF pages that are pictures: off (the pages are named), or the installed "
        "program that reads them, tesseract or ocrmypdf. The text is marked. Give the file more time.",
    )
    ocr_languages: str = Field(
        "eng",
        pattern=r"^[A-Za-z_]{3,20}(\+[A-Za-z_]{3,20}){0,9}$",
        description="Languages of the pages to recognise as tesseract names them, such as eng+deu.",
    )
