"""`context-engine job`: work over many documents that lasts days."""

from __future__ import annotations

from context_engine.apps.cli.app import LazyGroup

job = LazyGroup(
    "job",
    "context_engine.apps.cli",
    {
        "add": ("job.work:add", "Add documents, a constraint, a risk or a finding."),
        "close": ("job.work:close", "Close a job: it can be read, and nothing is added any more."),
        "delete": ("job.work:delete", "Remove a job with its memory and its documents."),
        "export": ("job.work:export", "Write the memory of a job as one JSON object."),
        "list": ("job.work:list_jobs", "List your jobs, newest first."),
        "run": ("job.work:run", "Put a question to every document of a job."),
        "show": ("job.work:show_job", "Show what a job has found, and what it has cost."),
        "start": ("job.work:start", "Start a job in a domain and print its id."),
    },
    help="Work over many documents, with a memory and a budget.",
)
