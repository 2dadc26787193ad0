"""REST API and web pages over one store: what was recorded, for programs and for people.

    uvicorn.run(create_app("runs/agentgym.db"))

`/health`, `/tasks`, `/trajectories` answer JSON (typed in `models.py`, described at `/docs`); `/` and
`/trajectories/ID/view` are plain HTML. The server only reads.
"""

from agentgym.server.app import create_app

__all__ = ["create_app"]
