"""Check the GPUs, their driver, and the driver against nsys."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nsyswrap.base.check import Check
from nsyswrap.base.constants import FIRST_NSYS
from nsyswrap.base.nsys.find import Nsys
from nsyswrap.record import gpus, proc
from nsyswrap.record.doctor.system import System
from nsyswrap.record.gpus import NO_LIBRARY, Devices

_NO_GPU = "no GPU"
_PARAMETERS = Path("/proc/driver/nvidia/params")
_RESTRICTED = re.compile(r"^RmProfilingAdminOnly: (\d)", re.MULTILINE)
_UNRESTRICT = (
    "echo options nvidia NVreg_RestrictProfilingToAdminUsers=0 | "
    "sudo tee /etc/modprobe.d/nvidia-profiling.conf && sudo reboot"
)
# Error of cuInit -> the command that cures it or shows the cause.
CURES = {
    NO_LIBRARY: "lspci | grep -i nvidia && sudo apt-get install nvidia-driver libcuda1  # Debian",
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
class Gpus:
    """The GPUs as the driver shows them, and what limits them.

    ``visible`` is $CUDA_VISIBLE_DEVICES, None if it is not set. ``mps``: a process of MPS runs, or its folder
    is named in the environment. ``restricted``: counters are for administrators only; None: not known.
    """

    devices: Devices
    visible: str | None = None
    mps: bool = False
    restricted: bool | None = None


def gather() -> Gpus:
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


def checks(gpu_facts: Gpus, system: System, nsys: Nsys | None) -> Iterator[Check]:
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
    if code in (NO_LIBRARY, *_NO_DEVICE) and system.container in _CONTAINER_CURES:
        return _CONTAINER_CURES[system.container]
    if code in (NO_LIBRARY, *_NO_DEVICE) and system.is_wsl:
        return _WSL_CURE
    return CURES.get(code, _LOOK)


def _driver(devices: Devices, nsys: Nsys | None) -> Check:
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


def _mig(devices: Devices) -> Check:
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
        text = (
            "for administrators only: --gpu-metrics-devices and ncu fail. Kernels are recorded without them"
        )
        return Check("note", subject, text, _UNRESTRICT)
    return Check("ok", subject, "this user may read them")
