"""Measure the peak rates of a GPU once, keep them in the user's cache, and find them again for runs.

They are kept by the name of the GPU and the version of its driver.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nsyswrap.base.check import Check
from nsyswrap.base.errors import CommandHint, NsyswrapError
from nsyswrap.base.files import json_of, read_json, typed, user_folder, write
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_facts import Peaks
from nsyswrap.base.run_folder import cache_dir
from nsyswrap.base.run_tool import fault_of, run_tool
from nsyswrap.base.units import Unit, human
from nsyswrap.record import gpus

with lazy_imports():  # a run reads what was measured
    from nsyswrap.record import pythons

PROGRAM = Path(__file__).parent / "doctor" / "programs" / "peaks.py"
_TIMEOUT_S = 120
TYPES = ("f16", "bf16", "tf32", "f32", "f64")  # of the numbers that are multiplied
SUBJECT, _FOLDER = "peaks", "peaks"


def stored(name: str, driver: str) -> Peaks | None:
    """Return what was measured on a GPU of this name with this driver; None if nothing was."""
    cache = user_folder("XDG_CACHE_HOME", ".cache")
    if cache is None:
        return None
    try:
        peaks = typed(Peaks, read_json(cache / _FOLDER / _file(name, driver)))
    except (OSError, ValueError, NsyswrapError):
        return None
    return peaks if peaks.driver == driver and set(TYPES).issuperset(peaks.flop_per_s) else None


def _file(name: str, driver: str) -> str:
    return f"{hashlib.sha256(json.dumps([name, driver]).encode()).hexdigest()[:24]}.json"


def measure() -> Iterator[Check]:
    """Measure the first GPU with the Python that has PyTorch, keep the rates, and tell them."""
    devices = gpus.query()
    if devices.error:
        yield Check("unknown", SUBJECT, f"not measured: {devices.error}")
        return
    python = pythons.choose([str(PROGRAM)])
    if python.lacks:
        text = f"not measured: {python.path} has no PyTorch, which multiplies the matrices"
        command = ["nsyswrap", "doctor", "--probe", "--peaks"]
        cure = CommandHint.of(command, "{}  # in the environment that has PyTorch")
        yield Check("unknown", SUBJECT, text, cure)
        return
    try:
        done = run_tool([python.path, PROGRAM], _TIMEOUT_S)
    except (OSError, subprocess.SubprocessError) as error:
        yield Check("problem", SUBJECT, f"not measured: the program {fault_of(error)}")
        return
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        yield Check("problem", SUBJECT, f"not measured: {last or f'exit code {done.returncode}'}")
        return
    try:
        name, peaks = _read(done.stdout, devices.driver)
        write(cache_dir(_FOLDER) / _file(name, devices.driver), json.dumps(asdict(peaks)))
    except (ValueError, NsyswrapError) as error:
        yield Check("problem", SUBJECT, f"not kept: {error}")
        return
    rates = [f"{kind} {human(rate, Unit.FLOP_PER_S)}" for kind, rate in peaks.flop_per_s.items()]
    listed = ", ".join([*rates, f"memory {human(peaks.bytes_per_s, Unit.BYTES_PER_S)}"])
    yield Check("ok", SUBJECT, f"{name}: {listed}; runs on GPUs of this name keep them")


def _read(output: str, driver: str) -> tuple[str, Peaks]:
    answer: Any = json_of(output.encode())
    if not isinstance(answer, list) or len(answer) != len(("name", "rates", "copied")):
        raise ValueError("the program that measures printed something else")
    name, rates, copied = answer
    return str(name), typed(Peaks, {"driver": driver, "flop_per_s": rates, "bytes_per_s": copied})
