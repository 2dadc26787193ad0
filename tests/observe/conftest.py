"""Steps are built by `observe_steps`, which tests import by name; the fixtures stand here."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from observe_steps import summary

__all__ = ["summary"]
