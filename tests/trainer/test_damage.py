"""A blob that is not what was written costs its own trajectory and nothing else, and is counted once."""

from __future__ import annotations

from agentgym.store import Store
from agentgym.store.schema import trajectory_body as bodies
from trainer.config import TrainConfig
from trainer.credit import CREDITS
from trainer.evidence import Drop
from trainer.feed import Feed


def test_the_feed_skips_damaged_trajectories_and_counts_them_once(policy, sample, policy_dir, tmp_path) -> None:
    path = tmp_path / "store.db"
    config = TrainConfig(model=policy_dir, store=str(path), output=tmp_path / "out", max_staleness=5)
    with Store.open(path) as store:
        made = [sample(policy, seed=seed) for seed in range(6)]
        for one in made:
            store.add(one)
        truncated, flipped = made[1].id, made[4].id
        with store.engine.begin() as connection:
            for name in (truncated, flipped):
                [blob] = connection.execute(
                    bodies.select().with_only_columns(bodies.c.tokens).where(bodies.c.trajectory_id == name)
                ).one()
                broken = blob[:-7] if name == truncated else blob[:40] + bytes([blob[40] ^ 1]) + blob[41:]
                connection.execute(bodies.update().where(bodies.c.trajectory_id == name).values(tokens=broken))
        feed = Feed(config, CREDITS.build(config.credit))
        feed.read(store, version=0)
        feed.read(store, version=0)
    assert {one.trajectory_id for one in feed.waiting} == {one.id for one in made} - {truncated, flipped}
    assert feed.drops == {Drop.DAMAGED: 2}
