"""A process that runs the open stage of a job with a chat model that writes the limit of the passage it reads.

Arguments: the folder of the bank, the data folder, the id of the job, and the question.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from context_engine.core.models import Authenticated, ChatMessage, ChatPart, ChatUsage, FinishReason, Principal
from context_engine.jobs.owned import OwnedJobs
from context_engine.service.deployment import DeploymentChat, open_deployment
from context_engine.wiring.setup import load_setup

MODEL = "quoting-1"
LIMIT = re.compile(r"The facility limit is USD (\d+) million")
CLERK = Authenticated(principal=Principal(id="clerk"))


class QuotingModel:
    """Writes the limit that stands in the passages; each document costs another sum."""

    name, model, max_tokens = "quoting", MODEL, 100

    def chat(
        self,
        messages: Sequence[ChatMessage],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        cancelled: Callable[[], bool] | None = None,
    ) -> Iterator[ChatPart]:
        limit = LIMIT.search(messages[0].content)
        number = 0 if limit is None else int(limit[1])
        yield ChatPart("NO ANSWER" if limit is None else f"{limit[0]} [1].")
        yield ChatPart("", FinishReason.STOP, ChatUsage(1_000 + number, 20 + number % 7))


def main(bank: Path, data_dir: Path, job_id: str, question: str) -> None:
    DeploymentChat.model = lambda _self: QuotingModel()  # type: ignore[method-assign]
    setup = load_setup(config_dir=bank, env={"HOME": str(bank)}, cwd=bank)
    deployment = open_deployment(setup, data_dir=data_dir)
    OwnedJobs(deployment, CLERK).run(job_id, question)
    deployment.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
