"""Images can be listed and pruned, and what is in use stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.sandbox import inventory
from agentgym.sandbox.layers import LocalImage, image_path, layer_root
from agentgym.sandbox.paths import state_dir


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def layer(name: str, size: int = 8192) -> str:
    path = layer_root() / name
    path.mkdir(parents=True)
    (path / "file").write_bytes(b"x" * size)
    return str(path)


def test_local_images_are_listed_with_the_size_of_their_layers():
    common = layer("common")
    LocalImage("one", "sha256:1", (common, layer("a"))).save(image_path("one"))
    LocalImage("two", "sha256:2", (common, layer("b", 40960))).save(image_path("two"))
    sizes = {info.name: info.size for info in inventory.local_images()}
    assert sizes["one"] >= 16384
    assert sizes["two"] - sizes["one"] >= 32768


def test_pruning_removes_what_no_image_and_no_sandbox_needs():
    used, stale, alive = layer("used"), layer("stale"), layer("alive")
    LocalImage("kept", "sha256:1", (used,)).save(image_path("kept"))
    LocalImage("live", "sha256:2", (alive,)).save(state_dir() / "local/agentgym-1/image.json")
    assert inventory.prune_local() >= 8192
    assert (Path(used).exists(), Path(stale).exists(), Path(alive).exists()) == (True, False, True)
    inventory.prune_local(everything=True)
    assert (Path(used).exists(), Path(alive).exists()) == (False, True)
    assert inventory.local_images() == []


def test_an_image_whose_layer_is_gone_is_no_image():
    path = layer("gone")
    LocalImage("broken", "sha256:1", (path,)).save(image_path("broken"))
    (Path(path) / "file").unlink()
    Path(path).rmdir()
    assert inventory.local_images() == []
