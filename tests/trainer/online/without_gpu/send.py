"""What the trainer does, in a Python that has vLLM: python send.py URL PORT WEIGHTS.safetensors"""

from __future__ import annotations

import sys

import torch
from safetensors.torch import load_file

from trainer.nccl import NcclSender

url, port, weights = sys.argv[1:]
NcclSender(url, ("127.0.0.1", int(port)), 1, torch.device("cpu"), packed=False).send(load_file(weights))
