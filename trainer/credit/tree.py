"""TreeRL (Hou et al. 2025): values of the nodes of a tree of forked rollouts, from the rewards of its leaves.

    V(n) = mean reward of the leaves below n,    A(n) = (2 V(n) − V(root) − V(parent)) / √leaves(n)

The tree of a prompt: its rollouts, and those forked from them (prefix replay), are leaves; a node is a stretch of one
trajectory between two forks. The first stretch of a rollout hangs on the root, that of a fork on the stretch it left.
A fork's tokens are its own calls only: the prefix it shares with its parent is trained once, in the parent.
Rollouts without forks make a tree of depth one, where A is 2 (R − mean R).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from trainer.credit.group import NoOptions, group_members
from trainer.credit.protocol import CREDITS, CreditInput, Need


@dataclass(slots=True)
class _Stretch:
    """Calls [first, last) of a trajectory. below: the trajectories that are its leaves."""

    trajectory: int
    first: int
    last: float
    parent: _Stretch | None
    below: list[int] = field(default_factory=list)


@CREDITS.register("treerl", NoOptions)
class TreeCredit:
    needs: frozenset[Need] = frozenset({"groups", "forks"})
    reads_token_rewards = False
    gamma = 1.0

    def __init__(self, options: NoOptions) -> None:
        self.options = options

    def advantages(self, given: CreditInput) -> Tensor:
        assert given.calls is not None
        assert given.forks is not None
        advantages = torch.zeros(given.chain.tokens, dtype=given.rewards.dtype)
        for members in group_members(given.groups).values():
            mean = given.rewards[members].mean()
            for stretch in tree(members, given.forks):
                value = given.rewards[stretch.below].mean()
                above = mean if stretch.parent is None else given.rewards[stretch.parent.below].mean()
                here = (given.chain.trajectory == stretch.trajectory) & (given.calls >= stretch.first)
                advantage = (2 * value - mean - above) / len(stretch.below) ** 0.5
                advantages[here & (given.calls < stretch.last)] = advantage
        return advantages


def tree(members: list[int], forks: tuple[tuple[int | None, int], ...]) -> list[_Stretch]:
    """The stretches of one prompt's tree, parents before children.

    forks: per trajectory of the batch, its parent (None: a rollout from the start, or of a parent that is not here) and how
    many of the parent's calls came before it.
    """
    children: dict[int, list[int]] = {index: [] for index in members}
    for index in members:
        parent = forks[index][0]
        if parent in children:
            children[parent].append(index)
    stretches: list[_Stretch] = []

    def grow(index: int, hangs_on: _Stretch | None) -> None:
        edges = sorted({forks[child][1] for child in children[index]} - {0})
        begin, above = 0, hangs_on
        for end in [*edges, float("inf")]:
            stretch = _Stretch(index, begin, end, above)
            stretches.append(stretch)
            for child in children[index]:
                if forks[child][1] == end:
                    grow(child, stretch)
            begin, above = int(end) if end != float("inf") else begin, stretch
        node = above
        while node is not None:
            node.below.append(index)
            node = node.parent
        for child in children[index]:
            if forks[child][1] == 0:
                grow(child, hangs_on)

    for index in members:
        if forks[index][0] not in children:
            grow(index, None)
    return stretches
