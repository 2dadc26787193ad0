"""What a policy said, in words, for exports: a trajectory's tokens are read with the tokenizer of the model that sampled them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from rich.markup import escape

from agentgym.cli.output import stderr
from agentgym.errors import InputError
from agentgym.models import ModelNotFound
from agentgym.store import Store, Trajectory, TrajectoryFilter
from agentgym.store.transfer import Transcribe
from agentgym.tasks import Registry, Task, TaskError

if TYPE_CHECKING:
    from harness.render import GuardedRenderer


def words(store: Store, registry: Registry, where: TrajectoryFilter, tokenizer: str | None = None) -> Transcribe:
    """Makes the words of trajectories that `where` selects. tokenizer: in place of their own; raises InputError for none."""
    from harness.replay.transcript import Transcriber

    def find(digest: str) -> Task:
        if not digest:
            raise TaskError("it was made on no registered task")
        return registry.get(digest).load()

    if tokenizer is not None:
        named = _renderer(tokenizer)
        return Transcriber(store, find, lambda _: named)

    @functools.cache
    def of_model(model: str) -> GuardedRenderer | None:
        try:
            return _renderer(model)
        except (ModelNotFound, InputError) as error:
            told = f"[yellow]note:[/] {escape(str(error))}\n  what {escape(model)} said is left out"
            stderr.print(told, highlight=False)
            return None

    @functools.cache
    def only_model() -> str | None:
        """Where a script played beside one model, it played through that model's tokenizer."""
        models = {summary.model for summary in store.query(where)} - {""}
        return models.pop() if len(models) == 1 else None

    def renderer(trajectory: Trajectory) -> GuardedRenderer | None:
        model = trajectory.model or only_model()
        return None if model is None else of_model(model)

    return Transcriber(store, find, renderer)


def _renderer(model: str) -> GuardedRenderer:
    from agentgym.cli.policy import load_tokenizer, quiet_transformers
    from harness.render import load_renderer

    quiet_transformers()
    return load_renderer(load_tokenizer(model, None))
