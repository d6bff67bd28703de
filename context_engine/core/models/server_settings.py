"""How the HTTP service behaves: its limits, and what it does when it stops."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from context_engine.core.models.settings_group import Flag, SettingsGroup


class ServerSettings(SettingsGroup):
    """The HTTP and MCP service; read when it starts, and again where SIGHUP reloads the configuration."""

    server_max_concurrent: Annotated[int, Field(strict=True, ge=1, le=1000)] = Field(
        16, description="Requests answered at once; those that come then wait their turn in a queue ..."
    )
    server_max_waiting: Annotated[int, Field(strict=True, ge=0, le=100_000)] = Field(
        256, description="... of this length; where it is full the answer is 503 with Retry-After."
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
        600, description="Requests a minute for each principal; 429 with RateLimit headers above it. 0: no limit."
    )
    server_rate_burst: Annotated[int, Field(strict=True, ge=1, le=100_000)] = Field(
        60, description="Requests that a principal may make at once before the rate holds."
    )
    server_drain_s: Annotated[float, Field(strict=True, ge=0.0, le=300.0, allow_inf_nan=False)] = Field(
        1.0, description="Seconds between readiness turned off and the port closed, for a load balancer to notice."
    )
    server_stop_s: Annotated[float, Field(strict=True, gt=0.0, le=300.0, allow_inf_nan=False)] = Field(
        8.0, description="Seconds after SIGTERM in which the requests at work are answered and the records written."
    )
    server_allowed_hosts: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (), description="Names under which /mcp may be asked (Host); empty: those of this machine and of --host."
    )
    server_allowed_origins: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (), description="Web pages from which /mcp may be asked (Origin), such as https://assistant.bank.example."
    )
    compare_mode: Flag = Field(
        False, description="Give with each answer of the RAG API the baseline beside it; RAG_COMPARE_MODE sets it too."
    )
    compare_file: str | None = Field(
        None,
        description="File that the service appends each comparison to: a line of JSON, without texts and question.",
    )
