"""What happened: trajectory records, their token codec, the SQL store and its integrity check.

    from agentgym.store import Store, TrajectoryFilter
    from agentgym.store.records import ModelCall, Step, Trajectory
    from agentgym.store.sequences import Sequence, sequences

records → layout → codec → container → rows: each file knows only what stands to its right.
"""

from agentgym.store.errors import CorruptError, InvalidTrajectoryError, NotFoundError, StoreError
from agentgym.store.filter import TrajectoryFilter, TrajectorySummary
from agentgym.store.records import ModelCall, Step, Trajectory
from agentgym.store.sequences import Sequence
from agentgym.store.store import Store

__all__ = [
    "CorruptError",
    "InvalidTrajectoryError",
    "ModelCall",
    "NotFoundError",
    "Sequence",
    "Step",
    "Store",
    "StoreError",
    "Trajectory",
    "TrajectoryFilter",
    "TrajectorySummary",
]
