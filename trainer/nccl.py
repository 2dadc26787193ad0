"""Weights from this process's GPU to the workers of a vLLM server, over NCCL: the trainer's half of vLLM's weight transfer.

    once          /init_weight_transfer_engine, while this process opens `address` and joins as rank 0; workers are ranks 1, …
    each time     /start_weight_update; then names, dtypes and shapes by /update_weights while the tensors are broadcast;
                  then /finish_weight_update

Both are vLLM's own code, so vLLM must be installed beside the trainer, in the server's version. The tests run it against a
real server without GPUs, where a stand-in takes the place of NCCL alone; NCCL itself has not been tried: the project had no
GPU. What is known from reading: a worker that dies in a broadcast leaves the other side waiting without end.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trainer.errors import TrainConfigError, TransferError

_BROKEN = (RuntimeError, OSError, ValueError)
"""What NCCL, a rendezvous, HTTP and a worker's refusal raise."""


class NcclSender:
    """Sends to one server. workers: its GPUs. packed: many tensors a broadcast, which CUDA streams overlap."""

    def __init__(
        self, url: str, address: tuple[str, int], workers: int, device: torch.device, *, packed: bool = True
    ) -> None:
        self.url = url
        self.address = address
        self.workers = workers
        self.device = device
        self.packed = packed
        self._engine: Any = None

    def send(self, weights: Mapping[str, Tensor]) -> None:
        """Exchange the server's weights for these (blocking); it should be paused. Raises TransferError, after which the server
        holds neither these nor its old weights for sure."""
        source = _Source(weights, self.device)
        try:
            if self._engine is None:
                self._engine = self._joined(source)
            self._engine.source = source
            self._engine.send_weights()
        except _BROKEN as error:
            self._engine = None  # a group that broke cannot be used again
            raise TransferError(f"the transfer to {self.url} broke off: {error}") from error

    def _joined(self, source: _Source) -> Any:
        transfer, nccl = vllm_transfer()
        host, port = self.address
        joined = nccl.NCCLTrainerInitInfo(
            rank=0, master_address=host, master_port=port, world_size=1 + self.workers, packed=self.packed
        )
        client = transfer.HTTPVLLMWeightSyncClient(self.url)
        return transfer.WeightTransferTrainerFactory.trainer_init(joined, client=client, source=source)


def vllm_transfer() -> tuple[Any, Any]:
    """vLLM's modules for it. TrainConfigError where they are not installed."""
    try:
        transfer = importlib.import_module("vllm.distributed.weight_transfer")
        return transfer, importlib.import_module("vllm.distributed.weight_transfer.nccl_engine")
    except ImportError as error:
        raise TrainConfigError(
            f"publish = 'nccl' uses vLLM's own sender, which cannot be imported: {error}",
            hint="install the server's version of vLLM beside the trainer",
        ) from error


class _Meta(NamedTuple):
    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]


class _Source:
    """What vLLM calls a WeightSource: what will come, and then each tensor, on the GPU only while it is sent."""

    def __init__(self, weights: Mapping[str, Tensor], device: torch.device) -> None:
        self._weights = weights
        self._device = device

    def metadata(self) -> list[_Meta]:
        return [_Meta(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in self._weights.items()]

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        return ((name, tensor.to(self._device)) for name, tensor in self._weights.items())
