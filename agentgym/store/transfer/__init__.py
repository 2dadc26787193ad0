"""Trajectories out of a store and into one.

    json         lossless, one document per trajectory; what `import_file` gives back equal, token for token
    atif         the Agent Trajectory Interchange Format, with token ids; ours also come back equal
    parquet      the sequences a learner eats, in the directory layout of Hugging Face `datasets`
    sft          chat `messages` and `tools`, one conversation per line
    predictions  SWE-bench's predictions: instance, model, patch

document, atif → export ← rows, parquet; each format knows one trajectory at a time, so no run is ever in memory.
"""

from agentgym.store.transfer.errors import TransferError
from agentgym.store.transfer.export import FORMATS, IN_WORDS, ExportReport, Format, export, save, stream
from agentgym.store.transfer.imports import ImportReport, import_file
from agentgym.store.transfer.transcript import Transcribe, Transcript, recorded_transcript

__all__ = [
    "FORMATS",
    "IN_WORDS",
    "ExportReport",
    "Format",
    "ImportReport",
    "Transcribe",
    "Transcript",
    "TransferError",
    "export",
    "import_file",
    "recorded_transcript",
    "save",
    "stream",
]
