"""The guide to chat models: its examples can be used, and its table has every option with its default."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from context_engine.adapters.chat_models.anthropic import AnthropicOptions
from context_engine.adapters.chat_models.openai import OpenAIChatOptions
from context_engine.settings import config_layer
from context_engine.settings.connections import Connection

GUIDE = (Path(__file__).resolve().parents[4] / "docs/guides/chat-models.md").read_text("utf-8")
PIPELINES = re.findall(r"```json\n(.*?)```", GUIDE, flags=re.DOTALL)
CONNECTIONS = re.findall(r"```yaml\n(.*?)```", GUIDE, flags=re.DOTALL)


@pytest.mark.parametrize("text", PIPELINES)
def test_its_settings_are_accepted(text: str) -> None:
    assert config_layer(json.loads(text), "guide", file="guide")


@pytest.mark.parametrize("text", CONNECTIONS)
def test_its_connections_are_accepted(text: str) -> None:
    for row in yaml.safe_load(text).values():
        fields = {key: "x" if str(value).startswith("${") else value for key, value in row.items()}
        assert Connection.model_validate(fields).base_url == row["base_url"].rstrip("/")


def test_its_table_has_every_option_and_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", GUIDE, flags=re.MULTILINE))
    for model in (OpenAIChatOptions, AnthropicOptions):
        for name, field in model.model_fields.items():
            if name in ("connection", "model", "api_version", "send_temperature"):
                continue
            default = field.default
            shown = str(int(default)) if isinstance(default, float) else json.dumps(default).strip('"')
            assert rows[name].strip("`") == shown, name
    assert OpenAIChatOptions.model_fields["send_temperature"].default is True
    assert AnthropicOptions.model_fields["send_temperature"].default is False
    assert AnthropicOptions.model_fields["api_version"].default in rows["api_version"]
