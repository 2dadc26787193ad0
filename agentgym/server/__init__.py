"""REST API and web pages over one store: what was recorded, for programs and for people.

    uvicorn.run(create_app("runs/agentgym.db", ServerSettings()))

    api/      resources under /v1: trajectories, tasks, runs, training, evaluations, the machine, reports, tokens, audit
    access/   who may do what, and what every request passes first
    runs/     long work in processes of its own: launch, watch, stop, resume
    pages/    the same for people; templates/ and static/ are theirs

Pages and API read the store through the same functions, so they cannot disagree.
"""

from agentgym.server.app import create_app
from agentgym.server.settings import ServerSettings

__all__ = ["ServerSettings", "create_app"]
