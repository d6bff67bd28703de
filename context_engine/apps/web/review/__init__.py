"""Pages for the auditor: what was recorded, one case rebuilt, and whether the log is intact."""
