"""The gateway: any harness acts, the evidence is ours.

An agent that somebody else wrote talks to an OpenAI-compatible endpoint by text; a learner needs the tokens that were sampled.
Between them stands one rule: *what was sampled is recorded when it is sampled, and text that comes back is only ever used to
find it again.*

    app.py           HTTP routes, keys, bodies            api/        the APIs clients speak, one file each
    gateway.py       open episodes by key                 ask.py      a request and an answer, whatever API
    session.py       one episode: requests to calls       messages.py messages made canonical
    conversation.py  text of a client -> token ids        reading.py  sampled ids -> text and calls for a client
    delivery.py      answers to clients that may be gone  live.py     ... and what they may read before there is one
    evidence.py      branches, and how much was delivered refusal.py  what is answered instead
    asked.py         what was asked, kept beside the calls

    hosting.py       sandbox + key + whatever drives the agent, then our grade
    agent.py         ... a program on this machine        program.py  its processes, which end with ours
    desk.py          ... somebody who registers episodes over HTTP
    runner.py        episodes as the rollout engine runs them
    adapters/        files that run inside other people's agents

One key is one episode. Its trajectory is like any other: calls with ids, logprobs and versions, steps for the commands that ran
in its sandbox, a grade from a fresh one.
"""
