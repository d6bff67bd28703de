"""The key of pseudonyms, from the environment alone: it is as secret as what they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from context_engine.errors import ConfigError
from context_engine.secrecy import keep_secret
from context_engine.settings.interpolate import Interpolator
from context_engine.settings.placement import PREFIX

PRIVACY_KEY: Final = f"{PREFIX}PRIVACY_KEY"
_SHORTEST: Final = 16


def read_privacy_key(env: Mapping[str, str], folder: Path) -> bytes | None:
    """Return the key of pseudonyms, None where none is set.

    Args:
        env: holds it as `CONTEXT_ENGINE_PRIVACY_KEY`: the key itself, or `${file:/run/secrets/NAME}`.
        folder: relative paths of files start here.

    Raises:
        ConfigError: it is shorter than 16 characters, or its file cannot be read.
    """
    written = env.get(PRIVACY_KEY, "")
    if not written:
        return None
    key = str(Interpolator(env, folder, PRIVACY_KEY, files=True).fill(written))
    if len(key) < _SHORTEST:
        problem = (
            f"has {len(key)} characters: at least {_SHORTEST} random ones are needed, e.g. of 'openssl rand -hex 32'"
        )
        raise ConfigError(problem, key=PRIVACY_KEY)
    keep_secret(key)
    return key.encode()
