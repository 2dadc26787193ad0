"""The processes that share one learner: started by torchrun, or just this one.

Parameters, gradients and optimizer states are sharded over the ranks (FSDP2, torch's `fully_shard`); the micro-batches of a
batch are dealt out. Every loss is a sum with weights fixed over the whole batch, so gradients are summed over ranks, never
averaged, and the step is that of one process. Flat results (one number per action token) are filled in by the rank that
computed them and added up.

Rank 0 leads: it reads the store, rolls out, writes checkpoints and metrics, and tells the others each piece of work that
all must do together (`trainer.run`). With one process none of this costs anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from trainer.batch import MicroBatch
from trainer.errors import TrainConfigError

PATIENCE = timedelta(days=7)
"""Others wait while rank 0 rolls out; torchrun ends them when it dies."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process: its number, how many there are, and where it computes."""

    rank: int = 0
    count: int = 1
    device: torch.device = torch.device("cpu")

    @classmethod
    def started(cls, device: str = "auto") -> Ranks:
        """From what torchrun set in the environment; joins the others. TrainConfigError for a device that is not here."""
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        if device == "cuda" and not torch.cuda.is_available():
            raise TrainConfigError("device = 'cuda', but torch sees no GPU", hint="set device = 'cpu', or 'auto'")
        count, local = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("LOCAL_RANK", "0"))
        place = torch.device(device, local) if device == "cuda" else torch.device(device)
        if device == "cuda":
            torch.cuda.set_device(place)
        if count == 1:
            return cls(device=place)
        if not dist.is_initialized():
            backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
            dist.init_process_group(backend, timeout=PATIENCE)
        return cls(dist.get_rank(), count, place)

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def share(self, micro_batches: Sequence[MicroBatch]) -> list[MicroBatch]:
        """This rank's part: every rank gets the same number, because all take part in each pass; what is missing is empty."""
        mine = list(micro_batches[self.rank :: self.count])
        return mine + [MicroBatch.empty()] * (-(-len(micro_batches) // self.count) - len(mine))

    def sum(self, flat: Tensor) -> Tensor:
        """The sum over ranks, on the CPU, in place."""
        if self.count > 1:
            dist.all_reduce(flat)
        return flat

    def place(self, module: nn.Module, layers: Iterable[nn.Module]) -> None:
        """Move a module to this rank's device, and shard it: each layer is gathered when it is needed, the rest once a pass."""
        module.to(self.device)
        if self.count == 1:
            return
        mesh = init_device_mesh(self.device.type, (self.count,))
        for part in (*layers, module):
            sharded: Any = fully_shard(part, mesh=mesh)
            assert isinstance(sharded, FSDPModule)
            sharded.set_gradient_divide_factor(1.0)
            sharded.set_force_sum_reduction_for_comms(True)

    def tell(self, work: object) -> None:
        """Rank 0 to all others, which `hear` it."""
        if self.count > 1:
            dist.broadcast_object_list([work], src=0)

    def hear(self) -> Any:
        heard: list[Any] = [None]
        dist.broadcast_object_list(heard, src=0)
        return heard[0]


def whole(tensor: Tensor) -> Tensor:
    """A tensor that may be sharded, whole and on the CPU. All ranks must ask together."""
    tensor = tensor.detach()
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).cpu().contiguous()


def whole_state(module: nn.Module, where: Callable[[str], bool] = lambda name: True) -> dict[str, Tensor]:
    """The state dict of a module that may be sharded, as far as `where` wants a name; tensors that are one (a tied head) stay
    one. See `whole`."""
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.reshard()  # the outermost part stays gathered after a pass without gradients
    state = {name: tensor for name, tensor in module.state_dict(keep_vars=True).items() if where(name)}
    found: dict[int, Tensor] = {}
    for tensor in state.values():
        if id(tensor) not in found:
            found[id(tensor)] = whole(tensor)
    return {name: found[id(tensor)] for name, tensor in state.items()}


def like(tensor: Tensor, whole: Tensor) -> Tensor:
    """`whole`, which every rank holds, sharded as `tensor` is."""
    if not isinstance(tensor, DTensor):
        return whole.to(tensor.device)
    return distribute_tensor(whole.to(tensor.device), tensor.device_mesh, tensor.placements, src_data_rank=None)


@torch.no_grad()
def fill(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Give the named tensors of a module that may be sharded these values."""
    own = module.state_dict(keep_vars=True)
    for name, tensor in state.items():
        own[name].copy_(like(own[name], tensor))
