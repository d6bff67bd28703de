"""`python -m context_engine`: the command line."""

from context_engine.apps.cli import run

if __name__ == "__main__":
    run()
