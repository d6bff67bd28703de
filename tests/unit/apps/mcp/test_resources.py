"""Resources and prompts, as the SDK's own client sees them in both eras of the protocol."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from typing import Any
from urllib.parse import quote

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from context_engine.apps.mcp.resources import PROMPTS, resource_at
from context_engine.errors import InvalidRequest
from context_engine.service.deployment import Deployment
from tests.unit.apps.mcp.conftest import CHAIR
from tests.unit.apps.mcp.test_protocol import eras, with_client
from tests.unit.service.small_bank import QUESTION


async def _refused(call: Awaitable[Any]) -> str:
    """Return the words of a protocol error; it is caught here, as the client's task group would wrap it."""
    with pytest.raises(MCPError) as caught:
        await call
    return str(caught.value)


async def _searched(client: Client) -> Any:
    return (await client.call_tool("search", {"question": QUESTION})).structured_content


@eras
def test_the_kinds_of_resources_are_listed(bank: Deployment, era: str) -> None:
    async def use(client: Client) -> Any:
        return await client.list_resources(), await client.list_resource_templates()

    single, templates = with_client(bank, era, use)
    assert [str(resource.uri) for resource in single.resources] == ["context-engine://domains"]
    assert [template.uri_template for template in templates.resource_templates] == [
        "context-engine://document/{domain}/{document_id}",
        "context-engine://record/{search_id}",
    ]


@eras
def test_a_document_and_a_record_are_read_by_the_ids_of_an_answer(bank: Deployment, era: str) -> None:
    async def use(client: Client) -> Any:
        answer = await _searched(client)
        document = answer["results"][0]["document_id"]
        addresses = [
            f"document/{answer['domain']}/{quote(document, safe='')}",
            f"record/{answer['search_id']}",
            "domains",
        ]
        read = [await client.read_resource(f"context-engine://{address}") for address in addresses]
        fetched = await client.call_tool("fetch", {"document_id": document})
        return answer, [resource.contents[0] for resource in read], fetched.content[0].text

    answer, (document, record, domains), fetched = with_client(bank, era, use)
    assert (document.mime_type, document.text) == ("text/plain", fetched)
    assert record.mime_type == "application/json"
    assert QUESTION in json.dumps(json.loads(record.text)["question"])
    assert answer["domain"] in domains.text


@eras
def test_a_record_is_its_callers_alone(bank: Deployment, era: str) -> None:
    answer = with_client(bank, era, _searched)

    address = f"context-engine://record/{answer['search_id']}"
    assert with_client(bank, era, lambda client: client.read_resource(address)).contents
    problem = with_client(bank, era, lambda client: _refused(client.read_resource(address)), CHAIR)
    assert problem.endswith("[record_not_found]")


@pytest.mark.parametrize(
    "uri",
    [
        "context-engine://nothing",
        "context-engine://document/ORM",
        "context-engine://document/ORM/a/b",
        "context-engine://record/",
        "https://record/1",
        "",
    ],
)
def test_an_address_of_no_resource_names_those_that_there_are(uri: str) -> None:
    with pytest.raises(InvalidRequest, match=r"context-engine://record/\{search_id\}"):
        resource_at(uri)


def test_parts_of_an_address_are_decoded() -> None:
    resource, parts = resource_at("context-engine://document/ORM/SOP%2F7%20b")
    assert (resource.kind, parts) == ("document", ("ORM", "SOP/7 b"))


@eras
def test_prompts_are_filled_with_what_was_sent(bank: Deployment, era: str) -> None:
    async def use(client: Client) -> Any:
        listed = await client.list_prompts()
        asked = await client.get_prompt("ask", {"question": "What is {a loss}?", "domain": "ORM"})
        short = await client.get_prompt("ask", {"question": "What is a loss?"})
        return listed, asked, short

    listed, asked, short = with_client(bank, era, use)
    assert [prompt.name for prompt in listed.prompts] == [form.name for form in PROMPTS] == ["ask", "review_record"]
    assert [(argument.name, argument.required) for argument in listed.prompts[0].arguments] == [
        ("question", True),
        ("domain", False),
    ]
    assert asked.messages[0].content.text.startswith(
        "Call `search` in the domain ORM with this question: What is {a loss}?"
    )
    assert short.messages[0].content.text.startswith("Call `search` with this question: What is a loss?")


@eras
@pytest.mark.parametrize(
    ("name", "arguments"), [("asks", {"question": "?"}), ("ask", {}), ("ask", {"question": "?", "domains": "ORM"})]
)
def test_a_wrong_prompt_is_an_error_that_says_what_to_send(
    bank: Deployment, era: str, name: str, arguments: dict[str, str]
) -> None:
    problem = with_client(bank, era, lambda client: _refused(client.get_prompt(name, arguments)))
    assert problem.endswith("[invalid_request]")
