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
from pathlib import Path

from nsyswrap.base.check import Check
from nsyswrap.base.constants import FIRST_NSYS
from nsyswrap.base.nsys.find import Nsys
from nsyswrap.base.records import dataclass
from nsyswrap.record import gpus, outcome, proc
from nsyswrap.record.conditions import file_system_of, is_network, mounts

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - nsys has its semaphores there
_LEAST_ROOM = 100e6  # bytes
_GOOD_ROOM = 2e9
_BLOCK = bytes(1 << 16)  # a full file system may still take an empty file
_CAP_SYS_ADMIN, _CAP_PERFMON = 21, 38
_MOST_PARANOID = 2  # above it nsys cannot sample the CPU
_ONLY_FOR = "only your own --nsys-arg=--sample needs it"
_HOST_USERS = ["0", "0", "4294967295"]  # /proc/self/uid_map outside of user namespaces

_NO_GPU = "no GPU"
_PARAMETERS = Path("/proc/driver/nvidia/params")
_RESTRICTED = re.compile(r"^RmProfilingAdminOnly: (\d)", re.MULTILINE)
_UNRESTRICT = (
    "echo options nvidia NVreg_RestrictProfilingToAdminUsers=0 | "
    "sudo tee /etc/modprobe.d/nvidia-profiling.conf && sudo reboot"
)
# Error of cuInit -> the command that cures it or shows the cause.
CURES = {
    gpus.NO_LIBRARY: "lspci | grep -i nvidia && sudo apt-get install nvidia-driver libcuda1  # Debian",
    34: "ldconfig -p | grep libcuda.so; echo $LD_LIBRARY_PATH",
    802: "sudo systemctl start nvidia-fabricmanager",
    803: "sudo reboot",
    804: "ldconfig -p | grep libcuda.so; echo $LD_LIBRARY_PATH",
    999: "sudo nvidia-modprobe -u -c 0",
}
_NO_DEVICE = (0, 100)  # of cuInit, where the driver found no GPU
_LOOK = "nvidia-smi; ls -l /dev/nvidia*"
_CONTAINER_CURES = {
    "Docker": "docker run --gpus all IMAGE",
    "Podman": "podman run --device nvidia.com/gpu=all IMAGE",
    "Apptainer": "apptainer exec --nv IMAGE PROGRAM",
    "Kubernetes": "resources: {limits: {nvidia.com/gpu: 1}}  # in the container's part of the pod",
}
# The driver of Windows serves Linux too: one installed in Linux hides it.
_WSL_CURE = "wsl.exe --shutdown  # after installing the newest NVIDIA driver in Windows"


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
    status = proc.text("/proc/self/status")
    paranoid = proc.text("/proc/sys/kernel/perf_event_paranoid").strip()
    return System(
        temporary,
        _folder(SHARED_MEMORY),
        "" if _has_room(temporary) else _elsewhere(),
        _loopback_error(),
        container_kind(os.environ),
        host_capabilities(status, proc.text("/proc/self/uid_map")),
        bool(re.search(r"^Seccomp:\s*2", status, re.MULTILINE)),
        int(paranoid) if re.fullmatch(r"-?\d+", paranoid) else None,
        proc.text("/proc/version"),
    )


def host_capabilities(status: str, uid_map: str) -> int | None:
    """Return the bits in the text of /proc/self/status; 0 in a user namespace, None if not known.

    Capabilities of a user namespace, such as that of a rootless container, permit nothing on the host.
    """
    if uid_map and uid_map.split() != _HOST_USERS:
        return 0
    capabilities = re.search(r"^CapEff:\s*(\w+)", status, re.MULTILINE)
    return int(capabilities[1], 16) if capabilities else None


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


# Check the GPUs, their driver, and the driver against nsys.


@dataclass(frozen=True)
class Gpus:
    """The GPUs as the driver shows them, and what limits them.

    ``visible`` is $CUDA_VISIBLE_DEVICES, None if it is not set. ``mps``: a process of MPS runs, or its folder
    is named in the environment. ``restricted``: counters are for administrators only; None: not known.
    """

    devices: gpus.Devices
    visible: str | None = None
    mps: bool = False
    restricted: bool | None = None


def gather_gpus() -> Gpus:
    """Query the driver, and read what it and the system publish."""
    in_use = "CUDA_MPS_PIPE_DIRECTORY" in os.environ or _mps_runs()
    return Gpus(gpus.query(), os.environ.get("CUDA_VISIBLE_DEVICES"), in_use, _restricted())


def _mps_runs() -> bool:
    pids = (int(name) for name in proc.names("/proc") if name.isdecimal())
    return any(proc.name(pid).startswith("nvidia-cuda-mps") for pid in pids)


def _restricted() -> bool | None:
    try:
        parameter = _RESTRICTED.search(_PARAMETERS.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return parameter[1] != "0" if parameter else None


def gpu_checks(gpu_facts: Gpus, system: System, nsys: Nsys | None) -> Iterator[Check]:
    """Yield the checks of GPU, driver, MIG, MPS and the permission for GPU counters."""
    yield _gpu(gpu_facts, system)
    yield _driver(gpu_facts.devices, nsys)
    yield _mig(gpu_facts.devices)
    yield _mps(gpu_facts)
    yield _counters(gpu_facts, system)


def _gpu(gpu_facts: Gpus, system: System) -> Check:
    devices = gpu_facts.devices
    if devices.error:
        return Check("problem", "GPU", devices.error, _gpu_cure(gpu_facts, system))
    named = list(dict.fromkeys(zip(devices.names, devices.capabilities, strict=True)))
    texts = [
        f"{devices.names.count(name)} x {name} (compute capability {capability})"
        for name, capability in named
    ]
    limit = "" if gpu_facts.visible is None else f"; CUDA_VISIBLE_DEVICES={gpu_facts.visible}"
    return Check("ok", "GPU", f"{', '.join(texts)}{limit}")


def _gpu_cure(gpu_facts: Gpus, system: System) -> str:
    code = gpu_facts.devices.error_code
    if code in _NO_DEVICE and gpu_facts.visible is not None:
        return "unset CUDA_VISIBLE_DEVICES"
    if code in (gpus.NO_LIBRARY, *_NO_DEVICE) and system.container in _CONTAINER_CURES:
        return _CONTAINER_CURES[system.container]
    if code in (gpus.NO_LIBRARY, *_NO_DEVICE) and system.is_wsl:
        return _WSL_CURE
    return CURES.get(code, _LOOK)


def _driver(devices: gpus.Devices, nsys: Nsys | None) -> Check:
    subject = "driver"
    if devices.error:
        return Check("unknown", subject, _NO_GPU)
    text = f"{devices.driver or 'version unknown'}, CUDA {devices.cuda}"
    first = FIRST_NSYS.get(int(devices.cuda.partition(".")[0]))
    if nsys is None or first is None:
        return Check("ok", subject, text)
    release = ".".join(map(str, first))
    if nsys.release < first:
        return Check(
            "note",
            subject,
            f"{text}: nsys {nsys.version} is older than this CUDA and possibly records no kernels",
            f"export NSYSWRAP_NSYS=/path/to/nsys  # {release} or newer; nsyswrap doctor --probe tries it",
        )
    return Check("ok", subject, f"{text}, which nsys {release} and newer support")


def _mig(devices: gpus.Devices) -> Check:
    if devices.mig is None:
        return Check("unknown", "MIG", _NO_GPU if devices.error else "the driver did not answer")
    if devices.mig:
        return Check("note", "MIG", f"on for {devices.mig} of the GPUs: a program uses one MIG device")
    return Check("ok", "MIG", "off")


def _mps(gpu_facts: Gpus) -> Check:
    if gpu_facts.mps:
        return Check("note", "MPS", "in use: programs share the GPU, and their kernels can delay each other")
    return Check("ok", "MPS", "not in use")


def _counters(gpu_facts: Gpus, system: System) -> Check:
    subject = "GPU counters"
    if gpu_facts.restricted is None:
        return Check(
            "unknown", subject, _NO_GPU if gpu_facts.devices.error else f"{_PARAMETERS} does not say"
        )
    if gpu_facts.restricted and not system.may_profile_system:
        text = "for administrators only: --gpu-metrics and ncu fail. Kernels are recorded without them"
        return Check("note", subject, text, _UNRESTRICT)
    return Check("ok", subject, "this user may read them")
