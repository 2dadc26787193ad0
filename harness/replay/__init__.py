"""Replay: was the trajectory what it says it was?

`reexecute` runs its actions again in a fresh sandbox and compares what comes back; `rescore` computes its logprobs
again from the recorded token ids and given weights.
"""

from harness.replay.reexecute import ReexecuteReport, StepComparison, profile_of, reexecute
from harness.replay.rescore import Rescorer, RescoreReport, rescore

__all__ = [
    "ReexecuteReport",
    "RescoreReport",
    "Rescorer",
    "StepComparison",
    "profile_of",
    "reexecute",
    "rescore",
]
