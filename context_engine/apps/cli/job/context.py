"""The jobs that the commands work with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from context_engine.apps.cli.context import CliContext, ConfigLocation, note_unwritten, open_context, os_user

if TYPE_CHECKING:
    from context_engine.core.models import Authenticated
    from context_engine.jobs.owned import OwnedJobs


@contextmanager
def owned_jobs(location: ConfigLocation, *, domain: str | None = None) -> Iterator[OwnedJobs]:
    """Yield the jobs of the user who runs the command; those of an operator are all jobs.

    Args:
        domain: the domain that the command searches; the base of the demo bank is built for it.
    """
    from context_engine.jobs.owned import OwnedJobs
    from context_engine.service.deployment import open_deployment

    context = open_context(location, domain=domain)
    with closing(open_deployment(context.setup, data_dir=context.data_dir, demo=context.demo)) as deployment:
        yield OwnedJobs(deployment, caller_of(context, location))
    note_unwritten()


def caller_of(context: CliContext, location: ConfigLocation) -> Authenticated:
    """Return the user who runs the command; an operator who acts as somebody else has that principal's jobs only."""
    from context_engine.core.models import Authenticated

    operator = location.acting_as is None and context.setup.config.principals.is_operator(os_user())
    return Authenticated(principal=context.principal, operator=operator)
