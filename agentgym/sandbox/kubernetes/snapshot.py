"""Snapshots on any cluster: what a sandbox has changed, fetched as a tar archive and laid over a fresh pod of the same image.

No engine is asked: an API server cannot commit a container. Inside, the kernel stamps every change with a `ctime` that no
program can set back, so what is younger than the sandbox is what it changed; and since removing a name changes its directory, the
list of names in every changed directory tells what was removed. Both lie on this machine, with the owner's lease beside them.

    meta.json   reference of the image below, length of the list, the lease
    data        the list, then the archive. The list: mode and path of what was locked, and for every changed directory its path,
                then type and name of each entry; each word ended by NUL, each group by one NUL more
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentgym.sandbox import labels
from agentgym.sandbox.paths import state_dir
from agentgym.sandbox.protocol import FileError, ImageError

SCHEME = "snapshot:"
"""What an image reference begins with that is a snapshot's directory."""

CLOCK = "date +%s.%N"
"""Asked of a sandbox when it starts: everything it changes has a later ctime."""

_SLACK_S = 0.05  # the kernel stamps files with a clock of coarser ticks


def capture(since: float) -> str:
    """A bash script that writes what this user changed after `since`: the list's length, a newline, the list, the archive.

    What its owner has locked against himself is opened for the while, and noted at the head of the list.
    """
    skip = r"\( -path /proc -o -path /sys -o -path /dev \) -prune -o"
    return rf"""
set -o pipefail
changed() {{ find / -xdev {skip} -newerct @{since - _SLACK_S:.3f} "$@" 2>/dev/null; true; }}
mine="-user $(id -u)"
list=$(mktemp) || exit
locked=()
for round in 1 2 3 4 5 6 7 8; do
    before=${{#locked[@]}}
    while IFS= read -r -d '' f; do locked+=("$f"); chmod u+rX -- "${{f#* }}"; [ ! -d "${{f#* }}" ] || chmod u+x -- "${{f#* }}"
    done < <(changed $mine \( -type d ! -perm -u=rx -o -type f ! -perm -u=r \) -printf '%m %p\0')
    [ ${{#locked[@]}} -gt "$before" ] || break
done
{{
    [ ${{#locked[@]}} = 0 ] || printf '%s\0' "${{locked[@]}}"
    printf '\0'
    changed -type d -writable -print0 | while IFS= read -r -d '' d; do
        printf '%s\0' "$d"; find "$d" -mindepth 1 -maxdepth 1 ! -path "$list" -printf '%y%f\0'; printf '\0'
    done
}} >"$list"
wc -c <"$list"; cat "$list"
changed ! -path "$list" \( -type f -o -type l -o -type d \) $mine -print0 | tar -c --null --no-recursion -P -f - -T -
status=$?
for ((i = ${{#locked[@]}} - 1; i >= 0; i--)); do chmod "${{locked[i]%% *}}" -- "${{locked[i]#* }}"; done
rm -f "$list"; exit $status
"""


def restore(names: int, archive: int) -> str:
    """A bash script that reads list and archive, of these lengths, from stdin: removes what was removed, then unpacks."""
    return rf"""
list=$(mktemp) || exit
head -c {names} >"$list"
exec 3<"$list"
locked=()
while IFS= read -r -d '' f <&3 && [ -n "$f" ]; do locked+=("$f"); done
while IFS= read -r -d '' d <&3; do
    declare -A keep=()
    while IFS= read -r -d '' f <&3 && [ -n "$f" ]; do keep["$f"]=1; done
    while IFS= read -r -d '' f; do
        [ -n "${{keep["$f"]-}}" ] || [ "$d/${{f#?}}" = "$list" ] || rm -rf -- "$d/${{f#?}}"
    done < <(find "$d" -mindepth 1 -maxdepth 1 -printf '%y%f\0' 2>/dev/null)
    unset keep
done
rm -f "$list"
head -c {archive} | tar -x -P -p --no-same-owner --delay-directory-restore -f - || exit
for ((i = ${{#locked[@]}} - 1; i >= 0; i--)); do chmod "${{locked[i]%% *}}" -- "${{locked[i]#* }}"; done
"""


@dataclass(frozen=True, slots=True)
class Stored:
    """A snapshot on disk. image: reference of the image below it. names: length of the list, bytes."""

    root: Path
    image: str
    names: int

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def archive(self) -> int:
        """Length of the archive, bytes."""
        return self.data.stat().st_size - self.names

    @classmethod
    def load(cls, reference: str) -> Stored:
        """ImageError where the snapshot is no longer there."""
        root = Path(reference.removeprefix(SCHEME))
        try:
            meta = json.loads((root / "meta.json").read_text())
            return cls(root, meta["image"], meta["names"])
        except (OSError, ValueError, KeyError) as error:
            raise ImageError(f"no usable snapshot at {root}: {error}", hint="take it again") from error


class Receiver:
    """Stores the output of `capture` as it comes."""

    def __init__(self, image: str, lease: Mapping[str, str]) -> None:
        self._meta = {"image": image, "lease": dict(lease)}
        self._root = _directory() / f"snapshot-{secrets.token_hex(8)}"
        self._root.mkdir(parents=True)
        self._file = (self._root / "data").open("wb")
        self._head = b""

    def feed(self, data: bytes) -> None:
        if b"\n" not in self._head:
            self._head, data = self._head + data, b""
            if b"\n" in self._head:
                length, data = self._head.split(b"\n", 1)
                self._head = length + b"\n"
        self._file.write(data)

    def finish(self) -> Stored:
        """FileError where what came is no snapshot."""
        self._file.close()
        try:
            names = int(self._head)
        except ValueError:
            self.discard()
            raise FileError(f"the sandbox sent no snapshot: {self._head[:200]!r}") from None
        (self._root / "meta.json").write_text(json.dumps({**self._meta, "names": names}))
        return Stored(self._root, str(self._meta["image"]), names)

    def discard(self) -> None:
        self._file.close()
        shutil.rmtree(self._root, ignore_errors=True)


def reap(*, everything: bool = False) -> int:
    """Removes snapshots whose owners are dead or whose leases are over; returns the count."""
    removed = 0
    for root in _directory().glob("snapshot-*"):
        try:
            lease = json.loads((root / "meta.json").read_text())["lease"]
        except (OSError, ValueError, KeyError):
            continue  # being made, or being removed
        if everything or labels.abandoned(lease):
            claimed = root.with_name(f"removing-{root.name}")
            try:
                root.rename(claimed)
            except OSError:
                continue  # another reaper's
            shutil.rmtree(claimed, ignore_errors=True)
            removed += 1
    return removed


def _directory() -> Path:
    path = state_dir() / "kubernetes"
    path.mkdir(parents=True, exist_ok=True)
    return path
