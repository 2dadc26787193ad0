"""The `harbor` package's own trajectory models, which say what ATIF is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from harbor_package import ask_harbor

_PROGRAM = """
from harbor.models.trajectories import Trajectory
faults = []
for path in sys.argv[1:]:
    for number, line in enumerate(open(path, encoding="utf-8")):
        try:
            Trajectory.model_validate_json(line)
        except ValueError as error:
            faults.append(f"{path}:{number}: {error}")
print(json.dumps(faults))
"""


@pytest.fixture(scope="session")
def harbor_faults() -> Callable[..., list[str]]:
    """What harbor's models find wrong with files of one ATIF document per line."""
    return lambda *paths: ask_harbor(_PROGRAM, *paths)
