"""Traces of what an episode spends its time on: episode → start, inference, tool, grade. Off unless asked for.

They are on where `OTEL_EXPORTER_OTLP_ENDPOINT` (or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`) names a collector and the `traces` extra
is installed; OpenTelemetry's own variables say the rest. Spans carry names, counts and outcomes, never a prompt, an
observation or a command's output. While they are off, a span costs one comparison.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agentgym.errors import MachineError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_tracers: list[Any] = []


class TelemetryUnavailable(MachineError):
    """Traces are asked for, and this machine cannot send any."""


class Span:
    """What is known of a piece of work once it is done."""

    def __init__(self, inner: Any = None) -> None:
        self._inner = inner

    def note(self, **facts: str | float | bool | None) -> None:
        """Add facts; None says nothing."""
        if self._inner is not None:
            self._inner.set_attributes(_named(facts))


_NOTHING = Span()


def configure(processor: SpanProcessor | None = None) -> None:
    """Send spans to `processor`, else to the collector that the environment names, else nowhere.

    Raises TelemetryUnavailable where a collector is named and OpenTelemetry is not installed.
    """
    _tracers.clear()
    if processor is None and not any(os.environ.get(name) for name in ENDPOINTS):
        return
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider

        if processor is None:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.trace.export import BatchSpanProcessor

            processor = BatchSpanProcessor(OTLPSpanExporter())
    except ModuleNotFoundError as error:
        raise TelemetryUnavailable(
            f"{' or '.join(ENDPOINTS)} asks for traces, and there is no {error.name}",
            hint="pip install 'agentgym[traces]', or unset the variable",
        ) from error
    provider = TracerProvider(resource=Resource.create({"service.name": "agentgym"}))
    provider.add_span_processor(processor)
    _tracers.append(provider.get_tracer("agentgym"))


@contextmanager
def span(name: str, **facts: str | float | bool | None) -> Iterator[Span]:
    """The time spent inside, below the span that is open in this task; an exception that leaves it is noted on it."""
    if not _tracers:
        yield _NOTHING
        return
    with _tracers[0].start_as_current_span(name, attributes=_named(facts)) as inner:
        yield Span(inner)


def _named(facts: Mapping[str, str | float | bool | None]) -> dict[str, Any]:
    return {f"agentgym.{name}": value for name, value in facts.items() if value is not None}
