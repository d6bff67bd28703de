"""`python -m context_engine`: the command line."""

from context_engine.cli import main

main(prog_name="context-engine")
