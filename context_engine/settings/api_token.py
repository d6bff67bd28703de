"""The token that opens the service without any file, from the environment alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from context_engine.errors import ConfigError
from context_engine.secrecy import keep_secret
from context_engine.settings.interpolate import Interpolator
from context_engine.settings.placement import PREFIX

API_TOKEN: Final = f"{PREFIX}API_TOKEN"
_SHORTEST: Final = 32


def read_api_token(env: Mapping[str, str], folder: Path) -> str | None:
    """Return the token without white space around it, None where none is set.

    Args:
        env: holds it as `CONTEXT_ENGINE_API_TOKEN`: the token itself, in any form, or `${file:/run/secrets/NAME}`.
        folder: relative paths of files start here.

    Raises:
        ConfigError: it is shorter than 32 characters, or its file cannot be read.
    """
    written = env.get(API_TOKEN, "").strip()
    if not written:
        return None
    token = str(Interpolator(env, folder, API_TOKEN, files=True).fill(written)).strip()
    if len(token) < _SHORTEST:
        problem = (
            f"has {len(token)} characters: at least {_SHORTEST} random ones are needed, e.g. of 'openssl rand -hex 32'"
        )
        raise ConfigError(problem, key=API_TOKEN)
    keep_secret(token)
    return token
