"""Query the GPUs of this machine from the driver's library, in a separate process.

A process that uses the driver affects what is measured next, so the library is not loaded in this process.
Run as a script, this file prints the JSON that ``query`` reads. It imports the standard library only.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_TIMEOUT_S = 60
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
_INIT_ERRORS = {
    100: "the NVIDIA driver found no GPU (check CUDA_VISIBLE_DEVICES)",
    803: "the versions of the NVIDIA driver's library and kernel module differ",
}
_NAME_BYTES = 256
_VERSION_BYTES = 96


@dataclass(frozen=True)
class Devices:
    """GPU names, their compute capabilities (``9.0``), driver version and CUDA version.

    ``error`` says why there is no GPU: no driver library, or an error of the driver.
    """

    names: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    driver: str = ""
    cuda: str = ""
    error: str = ""


def query() -> Devices:
    """Query the driver in a short-lived process."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(Path(__file__))],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
        answer = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return Devices(error=f"the NVIDIA driver did not answer ({error})")
    return Devices(
        tuple(answer["names"]),
        tuple(answer["capabilities"]),
        answer["driver"],
        answer["cuda"],
        answer["error"],
    )


def _query_driver() -> dict[str, object]:
    answer: dict[str, object] = {
        "names": [],
        "capabilities": [],
        "driver": _driver_version(),
        "cuda": "",
        "error": "",
    }
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return {**answer, "error": "NVIDIA driver not found: libcuda.so.1 is missing"}
    if code := cuda.cuInit(0):
        return {
            **answer,
            "error": _INIT_ERRORS.get(
                code, f"the NVIDIA driver cannot be initialized (cuInit returned {code})"
            ),
        }
    version, count = ctypes.c_int(), ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(version))
    cuda.cuDeviceGetCount(ctypes.byref(count))
    devices = [_device(cuda, ordinal) for ordinal in range(count.value)]
    return {
        **answer,
        "names": [name for name, _ in devices],
        "capabilities": [capability for _, capability in devices],
        "cuda": f"{version.value // 1000}.{version.value % 1000 // 10}",
        "error": "" if devices else "the NVIDIA driver found no GPU",
    }


def _device(cuda: ctypes.CDLL, ordinal: int) -> tuple[str, str]:
    handle, name = ctypes.c_int(), ctypes.create_string_buffer(_NAME_BYTES)
    cuda.cuDeviceGet(ctypes.byref(handle), ordinal)
    cuda.cuDeviceGetName(name, _NAME_BYTES, handle)
    major, minor = ctypes.c_int(), ctypes.c_int()
    cuda.cuDeviceGetAttribute(ctypes.byref(major), _CAPABILITY_MAJOR, handle)
    cuda.cuDeviceGetAttribute(ctypes.byref(minor), _CAPABILITY_MINOR, handle)
    return name.value.decode(errors="replace"), f"{major.value}.{minor.value}"


def _driver_version() -> str:
    try:
        management = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return ""
    version = ctypes.create_string_buffer(_VERSION_BYTES)
    if management.nvmlInit_v2() or management.nvmlSystemGetDriverVersion(version, _VERSION_BYTES):
        return ""
    return version.value.decode(errors="replace")


if __name__ == "__main__":
    print(json.dumps(_query_driver()))
