"""Traces and logs: nothing unless asked for, the right shape where asked, and no secret in either."""

from __future__ import annotations

import json
import logging

import pytest

from agentgym import logs, telemetry
from agentgym.telemetry import TelemetryUnavailable, span

sdk = pytest.importorskip("opentelemetry.sdk.trace.export", reason="opentelemetry-sdk is not installed")
memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")


@pytest.fixture
def exported():
    exporter = memory.InMemorySpanExporter()
    telemetry.configure(sdk.SimpleSpanProcessor(exporter))
    yield exporter
    telemetry.configure()


def test_nothing_is_traced_unless_a_collector_is_named(monkeypatch) -> None:
    for name in telemetry.ENDPOINTS:
        monkeypatch.delenv(name, raising=False)
    telemetry.configure()
    with span("episode", task="t") as seen:
        seen.note(reward=1.0)
    assert not telemetry._tracers


def test_a_collector_without_the_package_is_an_error_that_says_how(monkeypatch) -> None:
    monkeypatch.setenv(telemetry.ENDPOINTS[0], "http://127.0.0.1:9")
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(TelemetryUnavailable) as refused:
        telemetry.configure()
    assert "agentgym[traces]" in str(refused.value.hint)


def test_phases_lie_inside_their_episode(exported) -> None:
    with span("episode", task="t", attempt=0) as episode:
        with span("inference"):
            pass
        with span("tool"):
            pass
        episode.note(termination="submitted", reward=None)
    inference, tool, episode = exported.get_finished_spans()
    assert {inference.parent.span_id, tool.parent.span_id} == {episode.context.span_id}
    assert dict(episode.attributes) == {
        "agentgym.task": "t",
        "agentgym.attempt": 0,
        "agentgym.termination": "submitted",
    }


def test_what_fails_is_noted_and_raised(exported) -> None:
    with pytest.raises(ValueError, match="boom"), span("tool"):
        raise ValueError("boom")
    [tool] = exported.get_finished_spans()
    assert tool.status.is_ok is False


def line_of(message: str, *arguments: object, **options) -> dict:
    record = logging.getLogger("agentgym.x").makeRecord(
        "agentgym.x", logging.WARNING, "x.py", 1, message, arguments, None, **options
    )
    return json.loads(logs.JsonFormatter().format(record))


def test_a_record_is_one_json_object_with_its_facts_beside_the_message() -> None:
    line = line_of("request %s", "done", extra=logs.facts(status=200, route="/v1/runs"))
    assert (line["message"], line["level"], line["status"], line["route"]) == (
        "request done",
        "warning",
        200,
        "/v1/runs",
    )
    assert line["time"].endswith("Z")


@pytest.mark.parametrize(
    "text",
    ["token agym_0a1b2c_SeCrEt-x_y refused", "Authorization: Bearer SeCrEt", "postgresql://me:SeCrEt@host/db"],
)
def test_no_secret_is_written(text) -> None:
    assert "SeCrEt" not in json.dumps(line_of(text, extra=logs.facts(detail=text)))
