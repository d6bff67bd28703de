"""`python -m context_engine`: the command line."""

from context_engine.apps.cli import main

if __name__ == "__main__":
    main(prog_name="context-engine")
