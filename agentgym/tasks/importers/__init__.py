"""Benchmarks of the SWE-bench family as tasks: read a file of rows, make each row a task directory or say why not.

read       a file → raw rows, each with its place in the file
rows       a raw row of any flavour → one `Instance`, or `RowRefused` with the reason
directory  an `Instance` → a task directory, which keeps the row so that it can be exported again unchanged
"""

from agentgym.tasks.importers.load import ImportReport, Refusal, import_rows
from agentgym.tasks.importers.rows import BENCHMARKS, Instance, RowRefused, normalise

__all__ = ["BENCHMARKS", "ImportReport", "Instance", "Refusal", "RowRefused", "import_rows", "normalise"]
