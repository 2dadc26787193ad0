"""For vLLM's processes on a machine without GPUs, which find this on PYTHONPATH: its weight transfer with a stand-in for NCCL.

The stand-in's broadcast goes through the store at which both sides meet. All else is vLLM's own: routes, rendezvous, what is
said about tensors, how a worker loads them.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.abc import MetaPathFinder


class StandIn:
    """A communicator as far as the transfer uses it."""

    def __init__(self, group) -> None:
        self.group = group

    def broadcast(self, tensor, src: int, stream=None) -> None:
        import torch

        mine = self.group.rank == src
        sent = self.group.broadcast_obj(tensor.numpy() if mine else None, src)
        if not mine:
            tensor.copy_(torch.from_numpy(sent))

    def destroy(self) -> None:
        pass


def replace(nccl_common) -> None:
    import torch
    from vllm.distributed.utils import StatelessProcessGroup

    def meet(host, port, rank, world_size, device) -> StandIn:
        return StandIn(StatelessProcessGroup.create(host=host, port=port, rank=rank, world_size=world_size))

    nccl_common.stateless_init_process_group = meet
    torch.accelerator.current_device_index = lambda: 0
    torch.accelerator.synchronize = lambda *_: None
    torch.cuda.current_stream = lambda *_: None


class Replacing(MetaPathFinder):
    """Waits for vLLM's module: most of its processes never load it, and what imports torch here would slow them all down."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname != "vllm.distributed.weight_transfer.nccl_common":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        load = spec.loader.exec_module

        def load_and_replace(module) -> None:
            load(module)
            replace(module)

        spec.loader.exec_module = load_and_replace
        return spec


sys.meta_path.insert(0, Replacing())
