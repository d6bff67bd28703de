"""Who may see what in the plugin's real process: the app, the user and the token as Dify hands them over decide."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest

from context_engine.apps.dify.settings_line import SettingsLine, write_line
from context_engine.settings.principals import token_hash

pytestmark = pytest.mark.slow

APP, OTHER_APP, LEAD = "app-intake", "app-other", "user-lead"
TOKEN, READER_TOKEN = "endpoint-token-0123456789abcdefghij", "reader-token-0123456789abcdefghijkl"
QUESTION = "What are the NPA classification criteria?"
OPEN = "npa_web"
ACCESS = {
    "version": 1,
    "principals": {
        "intake": {
            "roles": ["npa-reader"],
            "clearance": "confidential",
            "dify": [{"app": "${INTAKE_APP}"}],
            "tokens": [{"sha256": token_hash(READER_TOKEN)}],
        },
        "lead": {
            "roles": ["npa-reader", "orm-reader"],
            "clearance": "restricted",
            "dify": [{"app": "${INTAKE_APP}", "user": LEAD}],
        },
    },
}


@pytest.fixture
def guarded(dify: Any, with_manifests: Any) -> dict[str, Any]:
    """Credentials of a bank whose ORM has a rule, and of whose NPA all but a web site."""

    def change(manifests: list[dict[str, Any]]) -> None:
        by_name = {one["domain"]: one for one in manifests}
        by_name["ORM"]["access"] = {"roles": ["orm-reader"]}
        for source in by_name["NPA"]["sources"]:
            if source["id"] != OPEN:
                source["access"] = {"roles": ["npa-reader"]}

    credentials: dict[str, Any] = with_manifests(change)
    manifests = json.loads(credentials["domains"])["manifests"]
    line = write_line(SettingsLine(manifests=manifests, config={"access.yaml": ACCESS}))
    return {**credentials, "domains": line, "variables": json.dumps({"INTAKE_APP": APP, "TEST": uuid4().hex})}


def search(plugin: Any, credentials: Any, app: str | None, user: str = "anybody", **fields: Any) -> set[str]:
    session = {} if app is None else {"app_id": app, "conversation_id": "c"}
    given = {"query": QUESTION, "domain": "NPA", **fields}
    reply = plugin.invoke("search", given, credentials, user_id=user, session=session)
    return {one["source_id"] for one in reply.variables["sources"]}


def test_the_session_says_who_asks_and_no_parameter_does(plugin: Any, dify: Any, guarded: Any) -> None:
    before = len(dify.requests)
    claims = {"principal": "lead", "role": "npa-reader", "app_id": APP, "user_id": LEAD, "on_behalf_of": "lead"}
    assert search(plugin, guarded, None) == {OPEN}
    assert search(plugin, guarded, OTHER_APP, LEAD, **claims) == {OPEN}
    asked = {request.path for request in dify.requests[before:]}
    assert all(dify.dataset_id(OPEN) in path for path in asked)
    assert len(search(plugin, guarded, APP)) > 1


def test_a_domain_that_may_not_be_known_is_unknown(plugin: Any, driver: Any, guarded: Any) -> None:
    def refused(domain: str, app: str) -> str:
        with pytest.raises(driver.Failed) as raised:
            search(plugin, guarded, app, domain_name=domain)
        assert raised.value.error_type == "UnknownDomain" and "ORM" not in raised.value.whole.replace(domain, "")
        return str(raised.value.message).replace(domain, "NAME")

    assert refused("ORM", APP) == refused("XYZ", APP) and refused("ORM", OTHER_APP) == refused("XYZ", OTHER_APP)
    assert search(plugin, guarded, APP, LEAD, domain_name="ORM")


def test_the_lists_name_what_may_be_known(plugin: Any, guarded: Any) -> None:
    def names(app: str, user: str) -> list[str]:
        reply = plugin.invoke(
            "domains", {"check_health": False}, guarded, user_id=user, session={"app_id": app, "conversation_id": "c"}
        )
        found: list[str] = reply.variables["names"]
        return found

    assert names(APP, LEAD) == ["BIG", "DCE", "DESK", "NPA", "ORM"]
    assert names(APP, "anybody") == names(OTHER_APP, LEAD) == ["BIG", "DCE", "DESK", "NPA"]


def test_the_credentials_are_checked_whole(plugin: Any, driver: Any, dify: Any, guarded: Any) -> None:
    assert plugin.validate(guarded)
    dify.inject("forbidden", endpoint="get")
    with pytest.raises(driver.Failed, match="21 of 21 sources"):
        plugin.validate(guarded)


def test_each_endpoint_acts_as_its_token(plugin: Any, guarded: Any) -> None:
    def asked(token: str, domain: str, **settings: Any) -> tuple[int, Any]:
        body = {"knowledge_id": domain, "query": QUESTION, "retrieval_setting": {"top_k": 20, "score_threshold": 0.0}}
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        given = {**guarded, "access_token": token, **settings}
        answer: tuple[int, Any] = plugin.endpoint(given, json.dumps(body).encode(), headers)
        return answer

    def sources(token: str) -> set[str]:
        return {one["metadata"]["source_id"] for one in asked(token, "NPA")[1]["records"]}

    assert sources(TOKEN) <= {OPEN} and len(sources(READER_TOKEN)) > 1
    for notices in (True, False):
        denied, unknown = (
            json.dumps(asked(READER_TOKEN, name, notice_records=notices)).replace(name, "NAME")
            for name in ("ORM", "XYZ")
        )
        assert denied == unknown
