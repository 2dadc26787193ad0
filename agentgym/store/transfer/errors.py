"""What can go wrong between a store and a file of another format."""

from __future__ import annotations

from agentgym.errors import InputError
from agentgym.store.errors import StoreError


class TransferError(StoreError, InputError):
    """A file holds no trajectory we can take, or a target cannot be written; nothing of it was stored."""

    exit_code = InputError.exit_code
