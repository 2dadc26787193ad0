"""The benchmarks' packages, where they are installed."""

from __future__ import annotations

import pytest

from agentgym.tasks.swebench import BenchmarkPackage, MissingPackage, package


@pytest.fixture(scope="session")
def swebench() -> BenchmarkPackage:
    try:
        return package()
    except MissingPackage as error:
        pytest.skip(str(error))
