"""The system call filter of a `local` sandbox, as the classic BPF program that bubblewrap installs before PID 1 starts.

A container engine brings a filter of its own; bubblewrap takes one from a file descriptor. Denied is what has no use
without capabilities and what kernels were broken through: other namespaces, mounting, kernel modules, keyrings (they
are not namespaced), bpf, perf, io_uring, userfaultfd, files by handle, sockets of families that reach past the network
namespace (vsock) or carry much unaudited code, and every call newer than this list. ptrace stays, for debuggers:
it reaches the sandbox's own processes only. A denied call fails as it would for want of a privilege, so programs fall back.

Numbers: x86-64 and the generic table (arm64) of Linux. Layout of instructions and data: linux/filter.h, linux/seccomp.h.
"""

from __future__ import annotations

import errno
import os
import platform
import struct
from dataclasses import dataclass

_NEWEST = 462
"""The highest system call number (mseal, Linux 6.10) that was judged here; what is newer does not exist for a sandbox."""

_DENIED: dict[str, tuple[int | None, int | None]] = {
    "_sysctl": (156, None),
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "query_module": (178, None),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "sysfs": (139, None),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    "vhangup": (153, 58),
}
_CLONE, _CLONE3, _SOCKET, _IOCTL = (56, 220), (435, 435), (41, 198), (16, 29)
_NAMESPACE_FLAGS = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK
_TERMINAL_INJECTION = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX

_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data


@dataclass(frozen=True, slots=True)
class _Machine:
    audit: int  # AUDIT_ARCH_*
    column: int


_MACHINES = {"x86_64": _Machine(0xC000003E, 0), "aarch64": _Machine(0xC00000B7, 1)}


def program(machine: str = platform.machine()) -> bytes | None:
    """The filter as an array of `struct sock_filter`; None for a machine whose numbers are not known here."""
    known = _MACHINES.get(machine)
    if known is None:
        return None
    column = known.column
    code = [
        _instruction(_LOAD, _ARCHITECTURE),
        *_if(_JUMP_EQUAL, known.audit, [], otherwise=[_fail(errno.ENOSYS)]),  # a 32-bit call has numbers of its own
        _instruction(_LOAD, _NUMBER),
        *_if(_JUMP_GREATER_EQUAL, _NEWEST + 1, [_fail(errno.ENOSYS)]),  # x32 calls too: they have a high bit set
        *_if(
            _JUMP_EQUAL, _CLONE3[column], [_fail(errno.ENOSYS)]
        ),  # its flags lie in memory: libraries fall back to clone
    ]
    for numbers in _DENIED.values():
        if (number := numbers[column]) is not None:
            code += _if(_JUMP_EQUAL, number, [_fail(errno.EPERM)])
    refuse_namespaces = [*_if(_JUMP_ANY_BIT, _NAMESPACE_FLAGS, [_fail(errno.EPERM)]), _allow()]
    code += _if(_JUMP_EQUAL, _CLONE[column], [_argument(0), *refuse_namespaces])
    refuse_injection = [
        one for request in _TERMINAL_INJECTION for one in _if(_JUMP_EQUAL, request, [_fail(errno.EPERM)])
    ]
    code += _if(_JUMP_EQUAL, _IOCTL[column], [_argument(1), *refuse_injection, _allow()])
    allow_families = [one for family in _FAMILIES for one in _if(_JUMP_EQUAL, family, [_allow()])]
    code += _if(_JUMP_EQUAL, _SOCKET[column], [_argument(0), *allow_families, _fail(errno.EAFNOSUPPORT)])
    return b"".join([*code, _allow()])


def descriptor() -> int | None:
    """A readable descriptor with the filter for this machine; the caller closes it."""
    if (filter_ := program()) is None:
        return None
    memory = os.memfd_create("agentgym-seccomp", os.MFD_CLOEXEC)
    os.write(memory, filter_)
    os.lseek(memory, 0, os.SEEK_SET)
    return memory


def _instruction(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, true, false, value)


def _if(jump: int, value: int, then: list[bytes], *, otherwise: list[bytes] | None = None) -> list[bytes]:
    """`then` where the comparison holds, else `otherwise`; both must return or fall through to what follows."""
    if otherwise:
        assert not then
        return [_instruction(jump, value, true=len(otherwise)), *otherwise]
    return [_instruction(jump, value, false=len(then)), *then]


def _argument(index: int) -> bytes:
    """Load the low half of an argument (both machines are little-endian)."""
    return _instruction(_LOAD, _ARGUMENTS + 8 * index)


def _fail(number: int) -> bytes:
    return _instruction(_RETURN, _ERRNO | number)


def _allow() -> bytes:
    return _instruction(_RETURN, _ALLOW)
