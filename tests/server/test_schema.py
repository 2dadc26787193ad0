"""schemathesis over the OpenAPI document: whatever it may be sent, the API answers as described and never with 5xx."""

from __future__ import annotations

import json

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from agentgym.server import ServerSettings, api, create_app
from agentgym.store import Store
from agentgym.tasks import Registry, load_task


@pytest.fixture(scope="module")
def app(tmp_path_factory, recorded, task_directory):
    path = tmp_path_factory.mktemp("schema") / "store.db"
    with Store.open(path) as store:
        for one in recorded:
            store.add(one)
    registry = Registry(path)
    registry.register(load_task(task_directory))
    registry.close()
    # No run is started: what a launch does is another test's. Everything else is reachable.
    return create_app(str(path), ServerSettings(max_running=0, runs_dir=path.parent))


@pytest.fixture(scope="module")
def operations(app):
    schema = schemathesis.openapi.from_asgi("/v1/openapi.json", app, headers={"Host": "127.0.0.1"})
    return {operation.ok().label: operation.ok() for operation in schema.get_all_operations()}


def labels() -> list[str]:
    found = [f"{method} /v1{route.path}" for one in api.PARTS for route in one.routes for method in route.methods]  # type: ignore[attr-defined]
    return sorted(
        label.replace(":path", "") for label in found if not label.endswith("/events")
    )  # a stream has no schema


def test_every_route_is_in_the_document(operations) -> None:
    assert {label for label in operations if not label.endswith("/events")} == set(labels())


@pytest.mark.parametrize("label", labels())
def test_the_api_keeps_to_its_document(operations, label) -> None:
    @given(case=operations[label].as_strategy())
    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
    def answers(case) -> None:
        response = case.call(headers={"Host": "127.0.0.1"})
        assert response.status_code < 500, response.text
        conforms(response, case)

    answers()


def conforms(response, case) -> None:
    """A success fits its schema; an error is problem+json."""
    if response.status_code >= 400:
        kind = response.headers["content-type"][0]
        assert kind == "application/problem+json", (response.status_code, kind)
        assert json.loads(response.content)["status"] == response.status_code
    else:
        case.operation.validate_response(response)


def test_every_operation_is_described_and_has_examples_where_it_takes_a_body(app) -> None:
    document = app.openapi()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation.get("description"), f"{method} {path}"
            if "requestBody" in operation:
                reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
                model = document["components"]["schemas"][reference.rpartition("/")[2]]
                fields = model["properties"].values()
                assert "examples" in model or any("examples" in field for field in fields), f"{method} {path}"
