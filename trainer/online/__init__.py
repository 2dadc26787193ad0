"""Online training: rollouts and updates at the same time, the one place that sees both harness and trainer.

    curriculum.py   which task next, and under which horizon: pass-rate bands, growth
    rollouts.py     keeps `concurrency` episodes going; every finished one is stored, then offered to the feed
    (store)         what is between them, still: the learner gets what the store has
    loop.py         take a batch → update → checkpoint → publish, beside the rollouts (async) or between them (sync)
    publisher.py    the learner's weights to whatever serves the policy, checked before they count
    patience.py     a store whose database may be away for a while
    measures.py     what both sides did, per step, for metrics.jsonl, the store and TensorBoard

One process: episodes are asyncio tasks, the learner works in a thread, a policy server is a process of its own (an embedded
policy is another thread). Pressure goes both ways: the learner waits for a full batch; rollouts wait while more than
`ahead` batches are unused, since they would only grow stale. Everything durable is in the store and in the checkpoints, so
a killed run loses its unfinished episodes and nothing else.

Nothing but the command line imports this package.
"""

from trainer.online.config import OnlineConfig

__all__ = ["OnlineConfig"]
