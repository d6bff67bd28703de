"""A maker of evidence, a bank with rules that disagree, and a chat model that writes what a test says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from context_engine.answer.values import Evidence
from context_engine.core.models import ChatMessage, ChatPart, ChatUsage, FinishReason
from context_engine.service.deployment import Deployment
from context_engine.wiring.audit_writers import close_writers
from tests.unit.service.small_bank import small_bank

DOCUMENTS = {
    "rules/losses.md": (
        "# 1 Losses\n\nA loss event above EUR 5,000 must be reported to Operational Risk within 24 hours. "
        "A near miss may be reported within 5 days.\n\n"
        "# 2 Approval\n\nThe Head of Desk approves the report. The report must not be sent to clients.\n"
    ),
    "rules/travel.md": "# 1 Travel\n\nBusiness travel is booked by the travel office.\n",
    "board/minutes.md": "# 1 Minutes\n\nThe board wants each loss event reported to its chair first.\n",
    "web/losses.txt": "A loss event above EUR 5,000 must be reported to Operational Risk within 48 hours.\n",
}


class ScriptedModel:
    """Writes texts piece by piece; an exception in place of a piece is raised.

    Attributes:
        asked: the messages of each call.
        closed: how many calls were ended before their last part.
    """

    name, model, max_tokens = "scripted", "scripted-1", 500

    def __init__(self, *pieces: str | Exception) -> None:
        self.pieces: Sequence[str | Exception] = pieces
        self.asked: list[list[ChatMessage]] = []
        self.closed = 0

    def chat(
        self,
        messages: Sequence[ChatMessage],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        cancelled: Callable[[], bool] | None = None,
    ) -> Iterator[ChatPart]:
        self.asked.append(list(messages))
        whole = False
        try:
            for piece in self.pieces:
                if isinstance(piece, Exception):
                    raise piece
                yield ChatPart(piece)
            whole = True
            yield ChatPart("", FinishReason.STOP, ChatUsage(100, 20))
        finally:
            self.closed += not whole


@pytest.fixture(scope="session")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The bank; every search and answer is recorded."""
    settings = {"audit": {"audit_mode": "required", "audit_timeout_s": 60.0}, "server": {"server_rate_per_minute": 0}}
    deployment = small_bank(tmp_path_factory.mktemp("bank"), documents=DOCUMENTS, settings=settings)
    yield deployment
    deployment.close()
    close_writers()


def make_evidence(text: str, *, rank: int = 1, headings: tuple[str, ...] = ()) -> Evidence:
    """Return a passage of a fictitious procedure, labelled by its rank."""
    return Evidence(f"[{rank}]", "sops", f"c{rank}", text, headings, rank, 0.8, 2, None)


@pytest.fixture
def passage() -> Callable[..., Evidence]:
    return make_evidence
