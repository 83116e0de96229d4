"""Check the system around a recording: container, folders, shared memory, loopback, permissions."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nsyswrap.base.check import Check
from nsyswrap.record import outcome
from nsyswrap.record.conditions import file_system_of, is_network, mounts

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - nsys has its semaphores there
_LEAST_ROOM = 100e6  # bytes
_GOOD_ROOM = 2e9
_BLOCK = bytes(1 << 16)  # a full file system may still take an empty file
_CAP_SYS_ADMIN, _CAP_PERFMON = 21, 38
_MOST_PARANOID = 2  # above it nsys cannot sample the CPU
_ONLY_FOR = "only your own --nsys-arg=--sample needs it"
_HOST_USERS = ["0", "0", "4294967295"]  # /proc/self/uid_map outside of user namespaces


@dataclass(frozen=True)
class Folder:
    """A folder that nsys writes into. ``error`` says why it cannot, or is empty."""

    path: str
    error: str = ""
    free_bytes: int = 0
    file_system: str = ""


@dataclass(frozen=True)
class System:
    """What recording needs of the system.

    ``elsewhere`` is a folder with room for temporary files, or empty. ``loopback_error`` says why this
    machine cannot connect to itself. ``container`` is the kind, or empty. ``capabilities`` are the bits that
    this process has on the host, None if not known. ``filtered``: seccomp filters its system calls.
    ``paranoid`` is perf_event_paranoid, None if the kernel has none. ``kernel`` is /proc/version.
    """

    temporary: Folder
    shared_memory: Folder
    elsewhere: str = ""
    loopback_error: str = ""
    container: str = ""
    capabilities: int | None = None
    filtered: bool = False
    paranoid: int | None = None
    kernel: str = ""

    @property
    def may_profile_system(self) -> bool:
        """True if this process has CAP_SYS_ADMIN or CAP_PERFMON."""
        return bool((self.capabilities or 0) & (1 << _CAP_SYS_ADMIN | 1 << _CAP_PERFMON))

    @property
    def is_wsl(self) -> bool:
        """True if this is Linux inside Windows."""
        return "microsoft" in self.kernel.lower()


def gather() -> System:
    """Read /proc and the environment, and try folders and loopback."""
    temporary = _folder(outcome.temporary_place({}))
    status = _text("/proc/self/status")
    paranoid = _text("/proc/sys/kernel/perf_event_paranoid").strip()
    return System(
        temporary,
        _folder(SHARED_MEMORY),
        "" if _has_room(temporary) else _elsewhere(),
        _loopback_error(),
        container_kind(os.environ),
        host_capabilities(status, _text("/proc/self/uid_map")),
        bool(re.search(r"^Seccomp:\s*2", status, re.MULTILINE)),
        int(paranoid) if re.fullmatch(r"-?\d+", paranoid) else None,
        _text("/proc/version"),
    )


def host_capabilities(status: str, uid_map: str) -> int | None:
    """Return the bits in the text of /proc/self/status; 0 in a user namespace, None if not known.

    Capabilities of a user namespace, such as that of a rootless container, permit nothing on the host.
    """
    if uid_map and uid_map.split() != _HOST_USERS:
        return 0
    capabilities = re.search(r"^CapEff:\s*(\w+)", status, re.MULTILINE)
    return int(capabilities[1], 16) if capabilities else None


def _text(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text(encoding="utf-8", errors="replace")
    return ""


def _folder(path: Path) -> Folder:
    try:
        with tempfile.NamedTemporaryFile(dir=path) as file:
            file.write(_BLOCK)
            file.flush()
            file_system = file_system_of(Path(file.name), mounts())
        return Folder(str(path), "", shutil.disk_usage(path).free, file_system)
    except OSError as error:
        return Folder(str(path), error.strerror or str(error))


def _has_room(folder: Folder) -> bool:
    return not folder.error and folder.free_bytes >= _LEAST_ROOM


def _elsewhere() -> str:
    """Return another folder for temporary files; empty if none of the usual ones has room."""
    for place in ("/tmp", "/var/tmp", "~", "."):  # noqa: S108 - tried, not trusted
        with suppress(OSError, RuntimeError):  # the current folder was deleted, or the user has no home
            folder = _folder(Path(place).expanduser().absolute())
            if _has_room(folder):
                return folder.path
    return ""


def _loopback_error() -> str:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=1).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def container_kind(environment: Mapping[str, str]) -> str:
    """Return the kind of container in which this process is; empty if none is recognized."""
    if {"APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"} & environment.keys():
        return "Apptainer"
    if "KUBERNETES_SERVICE_HOST" in environment:
        return "Kubernetes"
    if os.access("/.dockerenv", os.F_OK):
        return "Docker"
    return "Podman" if os.access("/run/.containerenv", os.F_OK) else environment.get("container", "")


def checks(system: System) -> Iterator[Check]:
    """Yield the checks of what nsys needs, then those of what only some of its options need."""
    yield _temporary(system.temporary, system.elsewhere)
    yield _shared_memory(system.shared_memory, system.container)
    if system.loopback_error:
        yield Check("problem", "loopback", f"127.0.0.1: {system.loopback_error}", "sudo ip link set lo up")
    else:
        yield Check("ok", "loopback", "up")
    yield _container_rights(system)
    yield _cpu_sampling(system)
    if system.is_wsl:
        text = "nsys supports less here: CPU sampling and GPU metrics are possibly missing"
        yield Check("note", "WSL2", text)


def _temporary(folder: Folder, elsewhere: str) -> Check:
    cure = f"export TMPDIR={shlex.quote(elsewhere)}" if elsewhere else "export TMPDIR=/path/with/space"
    if folder.error:
        return Check("problem", "TMPDIR", f"{folder.path} cannot be written: {folder.error}", cure)
    room = f"{folder.free_bytes / 1e9:,.1f} GB free at {folder.path}"
    if folder.free_bytes < _LEAST_ROOM:
        return Check("problem", "TMPDIR", f"only {room}; nsys writes the recording there", cure)
    if is_network(folder.file_system):
        text = (
            f"{room}, on a network file system ({folder.file_system}): nsys is possibly slow or fails there"
        )
        return Check("note", "TMPDIR", text, "export TMPDIR=/path/on/a/local/disk")
    if folder.free_bytes < _GOOD_ROOM:
        return Check("note", "TMPDIR", f"{room}: long recordings need more")
    return Check("ok", "TMPDIR", room)


def _shared_memory(folder: Folder, container: str) -> Check:
    if not folder.error:
        return Check("ok", folder.path, f"{folder.free_bytes / 1e9:,.1f} GB free")
    cure = "sudo mount -t tmpfs -o mode=1777 tmpfs /dev/shm"
    if container == "Docker":
        cure = "docker run --shm-size=1g IMAGE"
    return Check("problem", folder.path, f"cannot be written: {folder.error}", cure)


def _container_rights(system: System) -> Check:
    subject = "container"
    if not system.container:
        return Check("ok", subject, "none recognized")
    kind = f"{system.container} with a seccomp filter" if system.filtered else system.container
    if system.may_profile_system:
        return Check("ok", subject, f"{kind}, with the rights to profile the system")
    text = f"{kind}, without CAP_SYS_ADMIN: possibly no CPU sampling and no GPU counters"
    cure = "docker run --cap-add=SYS_ADMIN IMAGE" if system.container == "Docker" else ""
    return Check("note", subject, text, cure)


def _cpu_sampling(system: System) -> Check:
    subject = "CPU sampling"
    if system.paranoid is None:
        return Check(
            "note", subject, "not possible: the kernel has no perf events. nsyswrap does not need it"
        )
    level = f"perf_event_paranoid is {system.paranoid}"
    if system.may_profile_system or (system.paranoid <= _MOST_PARANOID and not system.filtered):
        return Check("ok", subject, f"allowed ({level})")
    if system.paranoid <= _MOST_PARANOID:
        return Check("note", subject, f"possibly blocked by the seccomp filter; {_ONLY_FOR}")
    text = f"not allowed ({level}); {_ONLY_FOR}"
    return Check("note", subject, text, f"sudo sysctl kernel.perf_event_paranoid={_MOST_PARANOID}")
