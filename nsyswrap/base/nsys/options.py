"""The values of ``--trace`` over all versions of nsys, and of our ``--steps`` and ``--step-at``."""

from __future__ import annotations

import re
from contextlib import suppress

from nsyswrap.base.errors import Unavailable, UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.text import did_you_mean

with lazy_imports():  # used for a trace that is not in our list
    import subprocess

    from nsyswrap.base import run_tool
    from nsyswrap.base.nsys import find

GARBAGE = "python-gc"  # ours: the hook in the program marks garbage collections
_WITH_VERBOSE = ("cublas", "cusparse", "cusolver", "cutensor", "cudla")
_WITH_ANNOTATIONS = ("opengl", "vulkan", "dx11", "dx12", "openxr")
KNOWN = (
    *("cuda", "cuda-hw", "cuda-sw", "nvtx", "osrt", "cudnn", "mpi", "ucx", "oshmem", "openacc", "openmp"),
    *(
        "python-gil",
        GARBAGE,
        "syscall",
        "gds",
        "nvvideo",
        "nvmedia",
        "tegra-accelerators",
        "wddm",
        "fastrpc",
        "none",
    ),
    *_WITH_VERBOSE,
    *(f"{api}-verbose" for api in _WITH_VERBOSE),
    *_WITH_ANNOTATIONS,
    *(f"{api}-annotations" for api in _WITH_ANNOTATIONS),
)
NCCL = "nccl"  # only a newer nsys has it
ADVICE_FOR_NCCL = "--trace cuda,nvtx records NCCL's kernels and ranges; for more use a newer nsys"
_HELP = r"(?s)-t, --trace=\s+Possible values are (.*?)\."
_TIMEOUT_S = 10
# The first version of the Python package nvtx that records no range under an older nsys, and those nsys.
SILENT_NVTX = (0, 2, 12)
LAST_SILENT_NSYS, FIRST_GOOD_NSYS = (2024, 2, 3), (2025,)
STEPS_DOMAIN = "nsyswrap"  # NVTX domain of the steps that the hook in the program marks
_RANGE = r"(\d{1,9})(?:-(\d{1,9}))?"
_STEP_AT = r"(?s)module|nvtx:.+|call:[\w.]+:[\w.]+"


def parse_steps(text: str) -> tuple[int, int]:
    """Return the first and the last step of ``10-13`` or ``10``. Raises UsageError."""
    match = re.fullmatch(_RANGE, text.strip())
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if last < first:
        raise UsageError(
            f"invalid --steps {text!r}: expected steps, for example 10-13",
            "steps are numbered from 0; 10-13 is four steps",
        )
    return first, last


def check_step_at(text: str) -> None:
    """Raise UsageError unless ``text`` says what ends a step."""
    if not re.fullmatch(_STEP_AT, text):
        raise UsageError(
            f"invalid --step-at {text!r}",
            "use module, nvtx:NAME or call:package.module:function; without it optimizers end the steps",
        )
    if text.startswith("call:__main__:"):
        raise UsageError(
            f"invalid --step-at {text!r}: it cannot name a function of the script itself",
            "move the function into a module that the script imports, or use nvtx:NAME or module",
        )


def range_name(steps: str) -> str:
    """Return the NVTX range around the recorded steps, as nsys takes it."""
    first, last = parse_steps(steps)
    return f"steps {first}-{last}@{STEPS_DOMAIN}"


def check_trace(text: str, nsys_path: str | None = None) -> None:
    """Raise UsageError for a value that no version of nsys knows, nor the nsys of this machine."""
    unknown = [word for word in text.split(",") if word not in KNOWN]
    wrong = [word for word in unknown if word not in _known_here(nsys_path)]
    if not wrong:
        return
    if " " in text:
        cure = "separate values with commas alone"
    else:
        cure = ADVICE_FOR_NCCL if wrong[0] == NCCL else did_you_mean(wrong[0], KNOWN)
    raise UsageError(
        f"invalid trace {text!r}: no value {wrong[0]!r}", cure or f"values: {', '.join(sorted(KNOWN))}"
    )


def _known_here(nsys_path: str | None) -> set[str]:
    """Return the values that the help text of the nsys of this machine names: it can be newer than KNOWN."""
    with suppress(Unavailable, OSError, subprocess.SubprocessError):
        nsys, _ = find.find_nsys(nsys_path)
        command = [nsys.path, "profile", "--help"]
        done = run_tool.run_tool(command, _TIMEOUT_S)
        if values := re.search(_HELP, done.stdout + done.stderr):
            return set(re.findall(r"'([\w-]+)'", values[1]))
    return set()
