"""API calls that returned an error; and those whose code is an answer, not a failure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.analysis.diagnostics.check import (
    Diagnosis,
    counted,
    info,
    marked,
    ok,
    unclipped,
    unknown,
    warning,
)
from nsyswrap.analysis.names import strip_version
from nsyswrap.base.missing import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsyswrap.capture.capture import Capture

SUBJECT = "API results"

# The codes of the runtime (cudaError_t) and of the driver (CUresult): what both have is the same.
_MEANINGS = (
    "1 invalid value, 2 out of memory, 3 not initialised, 4 shutting down, 35 driver too old, "
    "98 invalid device function, 100 no device, 101 invalid device, 200 invalid kernel image, "
    "201 invalid context, 209 no kernel image for this GPU, 214 ECC error, 218 invalid PTX, "
    "222 unsupported PTX version, 301 file not found, 304 operating system error, 400 invalid handle, "
    "401 illegal state, 500 not found, 600 not ready, 700 illegal address, "
    "701 too many resources for the launch, 702 launch timed out, 704 peer access already enabled, "
    "705 peer access not enabled, 709 context destroyed, 710 assertion failed, "
    "712 memory already registered, 713 memory not registered, 714 stack error, 715 illegal instruction, "
    "716 misaligned address, 717 invalid address space, 718 invalid program counter, 719 launch failed, "
    "720 cooperative launch too large, 800 not permitted, 801 not supported, 802 system not ready, "
    "803 driver mismatch, 900 not allowed during stream capture, 901 stream capture invalidated, "
    "910 graph update not possible, 999 unknown error"
)
_CODES = {int(code): text for code, text in (part.split(" ", 1) for part in _MEANINGS.split(", "))}
_ENDS_CONTEXT = {214, 700, 702, 710, 714, 715, 716, 717, 718, 719}
# Results that answer what was asked, by the functions that ask it.
_ANSWERS = {
    600: r"cu(da)?(EventQuery|StreamQuery|EventElapsedTime)",
    500: r"cu(GetProcAddress|ModuleGet|LibraryGet)|cudaGetDriverEntryPoint",
    1: r"cu(da)?PointerGetAttribute",  # of memory that CUDA knows nothing of
    704: r"cu(daDevice|Ctx)EnablePeerAccess",
    705: r"cu(daDevice|Ctx)DisablePeerAccess",
    712: r"cu(da|Mem)HostRegister",
    713: r"cu(da|Mem)HostUnregister",
    910: r"cu(da)?GraphExecUpdate",
    4: r"cu",  # whatever is called while the process ends
}
_ECHO = r"cuda(GetLast|PeekAtLast)Error"  # returns what an earlier call did


def diagnose(capture: Capture) -> Iterator[Diagnosis]:
    """Yield the results that are no success, by function and code."""
    if not capture.has("api"):
        yield unknown(SUBJECT, "no API calls to look at (--trace=cuda records them)")
        return
    calls = unclipped(capture, "api", "return_value", "name")
    result = calls["return_value"]
    if (result == MISSING).all():
        yield unknown(SUBJECT, "this export does not say what API calls returned")
        return
    rows = np.flatnonzero((result != 0) & (result != MISSING))
    codes, (names, results) = group_keys(calls["name"][rows], result[rows])
    counts = np.bincount(codes, minlength=len(names)).tolist()
    checks = [
        _check(strip_version(capture.text(name)) or "a call without a name", code, count)
        for name, code, count in zip(names.tolist(), results.tolist(), counts, strict=True)
    ]
    yield from checks
    if not any(check.level == "warning" for check in checks):
        yield ok(SUBJECT, f"no API call failed; {counted('api', marked(result == 0))} returned success")


def _check(name: str, code: int, count: int) -> Diagnosis:
    said = f"{name} returned {code} ({_CODES.get(code, 'an error')})"
    if re.match(_ANSWERS.get(code, "$"), name):
        return info(SUBJECT, count, f"{said}: an answer, no failure")
    if re.match(_ECHO, name):
        return info(SUBJECT, count, f"{said}: the error of an earlier call")
    if code in _ENDS_CONTEXT:
        return warning(SUBJECT, count, f"{said}: its CUDA context is lost, and nothing ran in it any more")
    return warning(SUBJECT, count, f"{said}: its time counts, but what it was called for did not happen")
