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
NO_LIBRARY, NO_ANSWER = -1, -2  # in place of an error of cuInit
_INIT_ERRORS = {
    34: "the libcuda.so.1 found first is the stub of the CUDA toolkit, not the NVIDIA driver",
    100: "the NVIDIA driver found no GPU (check CUDA_VISIBLE_DEVICES)",
    802: "the NVIDIA driver is not ready, possibly because the NVSwitch fabric manager is not running",
    803: "the versions of the NVIDIA driver's library and kernel module differ",
    804: "the libcuda.so.1 found first is CUDA's compatibility library, which does not support this GPU",
    999: "the NVIDIA driver reports an unknown error, possibly because a device file is missing",
}
_NAME_BYTES = 256
_VERSION_BYTES = 96


@dataclass(frozen=True)
class Devices:
    """GPU names, their compute capabilities (``9.0``), driver version and CUDA version.

    ``error`` says why there is no GPU: no driver library, or an error of the driver. ``error_code`` is what
    cuInit returned, NO_LIBRARY or NO_ANSWER. ``mig`` counts the GPUs that are divided by MIG; None: not
    known.
    """

    names: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    driver: str = ""
    cuda: str = ""
    error: str = ""
    error_code: int = 0
    mig: int | None = None


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
        return Devices(error=f"the NVIDIA driver did not answer ({error})", error_code=NO_ANSWER)
    return Devices(
        tuple(answer["names"]),
        tuple(answer["capabilities"]),
        answer["driver"],
        answer["cuda"],
        answer["error"],
        answer["error_code"],
        answer["mig"],
    )


def _query_driver() -> dict[str, object]:
    driver, mig = _management()
    answer: dict[str, object] = {
        "names": [],
        "capabilities": [],
        "driver": driver,
        "cuda": "",
        "error": "",
        "error_code": 0,
        "mig": mig,
    }
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        missing = "NVIDIA driver not found: libcuda.so.1 is missing"
        return {**answer, "error": missing, "error_code": NO_LIBRARY}
    if code := cuda.cuInit(0):
        return {
            **answer,
            "error": _INIT_ERRORS.get(
                code, f"the NVIDIA driver cannot be initialized (cuInit returned {code})"
            ),
            "error_code": code,
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


def _management() -> tuple[str, int | None]:
    """Return the driver's version, and how many GPUs are divided by MIG; empty and None if not known."""
    try:
        management = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return "", None
    version = ctypes.create_string_buffer(_VERSION_BYTES)
    if management.nvmlInit_v2() or management.nvmlSystemGetDriverVersion(version, _VERSION_BYTES):
        return "", None
    count = ctypes.c_uint()
    management.nvmlDeviceGetCount_v2(ctypes.byref(count))
    divided = sum(_is_divided(management, index) for index in range(count.value))
    return version.value.decode(errors="replace"), divided


def _is_divided(management: ctypes.CDLL, index: int) -> bool:
    device, current, pending = ctypes.c_void_p(), ctypes.c_uint(), ctypes.c_uint()
    query_mig = getattr(management, "nvmlDeviceGetMigMode", None)  # drivers before 450 lack it
    if query_mig is None or management.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)):
        return False
    return not query_mig(device, ctypes.byref(current), ctypes.byref(pending)) and current.value == 1


if __name__ == "__main__":
    print(json.dumps(_query_driver()))
