"""Prometheus metrics: requests as they come, and what the store holds at each scrape."""

from __future__ import annotations

import os
from collections.abc import Iterator

import sqlalchemy as sa
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from agentgym.store.engine import reading
from agentgym.store.schema import server_run as runs
from agentgym.store.schema import trajectory as trajectories

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class Measures:
    """A registry of its own per application, so that two applications in one process do not share counts."""

    def __init__(self, engine: sa.Engine) -> None:
        self._registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self._requests = Counter("agentgym_http_requests", "Requests answered.", labels, registry=self._registry)
        self._seconds = Histogram(
            "agentgym_http_seconds", "Time to answer.", ("route",), buckets=_SECONDS, registry=self._registry
        )
        self._stored = _StoreCollector(engine)
        self._registry.register(self._stored)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method if method.isalpha() and len(method) < 8 else "other", route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self._registry)
        everyones = CollectorRegistry()
        MultiProcessCollector(everyones)
        everyones.register(self._stored)
        return generate_latest(everyones)


class _StoreCollector(Collector):
    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def describe(self) -> Iterator[Metric]:  # so that registering asks the store nothing
        return iter(())

    def collect(self) -> Iterator[Metric]:
        with reading(self._engine) as connection:
            stored = GaugeMetricFamily("agentgym_trajectories", "Trajectories stored.", labels=("termination",))
            by = trajectories.c.termination
            for name, count in connection.execute(sa.select(by, sa.func.count()).group_by(by)):
                stored.add_metric([name], count)
            yield stored
            launched = GaugeMetricFamily("agentgym_runs", "Runs launched by a server.", labels=("kind", "status"))
            groups = (runs.c.kind, runs.c.status)
            for kind, status, count in connection.execute(sa.select(*groups, sa.func.count()).group_by(*groups)):
                launched.add_metric([kind, status], count)
            yield launched
