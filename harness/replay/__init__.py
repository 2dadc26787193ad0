"""Replay: was the trajectory what it says it was, and what would have come of it otherwise?

reexecute   its actions again in a fresh sandbox, compared with what came back then; `regrade` for the reward alone
rescore     its logprobs again from the recorded token ids, by given weights or a server
rerender    its prompts again, by today's harness
fork        its steps up to one, and from there another policy: a child, stored beside it
"""

from harness.replay.fork import RecordedPrefix, ReplayDiverged, fork
from harness.replay.lineage import whole
from harness.replay.reexecute import ReexecuteReport, StepComparison, profile_of, reexecute, regrade
from harness.replay.rerender import PromptDifference, RerenderReport, rerender
from harness.replay.rescore import Rescorer, RescoreReport, TokenGap
from harness.replay.server_rescore import ServerRescorer, rescore, scorer_for

__all__ = [
    "PromptDifference",
    "RecordedPrefix",
    "ReexecuteReport",
    "ReplayDiverged",
    "RerenderReport",
    "RescoreReport",
    "Rescorer",
    "ServerRescorer",
    "StepComparison",
    "TokenGap",
    "fork",
    "profile_of",
    "reexecute",
    "regrade",
    "rerender",
    "rescore",
    "scorer_for",
    "whole",
]
