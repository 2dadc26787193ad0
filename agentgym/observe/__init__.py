"""What a policy does, before anyone asks what it earned: behaviour, suspicion, drift, and a reading list, from the store.

    report = observe(store, TrajectoryFilter(run_id="r1"))     # streams: one page of trajectories in memory at a time
    page = report_html(report)                                 # one self-contained file

actions -> behaviour, suspicion -> summary -> report (html/): each file knows only what stands to its left. Everything
is read from steps, verdicts and patches as they were recorded; nothing here runs, grades or feeds back into training.
Success is a reward of at least 1; episodes without a verdict count nowhere as failures.
"""

from agentgym.observe.behaviour import BEHAVIOURS, Behaviour, behaviour_of
from agentgym.observe.drift import Drift, drift
from agentgym.observe.intervals import Interval, wilson
from agentgym.observe.reading import observe
from agentgym.observe.summary import Report
from agentgym.observe.suspicion import Flag, suspicions

__all__ = [
    "BEHAVIOURS",
    "Behaviour",
    "Drift",
    "Flag",
    "Interval",
    "Report",
    "behaviour_of",
    "drift",
    "observe",
    "suspicions",
    "wilson",
]
