"""The values of nsys' ``--trace``, over all versions."""

from __future__ import annotations

import re
import subprocess
from contextlib import suppress

from nsyswrap.base.errors import Unavailable, UsageError
from nsyswrap.base.nsys import find
from nsyswrap.base.run_tool import run_tool
from nsyswrap.base.suggest import did_you_mean

_WITH_VERBOSE = ("cublas", "cusparse", "cusolver", "cutensor", "cudla")
_WITH_ANNOTATIONS = ("opengl", "vulkan", "dx11", "dx12", "openxr")
KNOWN = (
    *("cuda", "cuda-hw", "cuda-sw", "nvtx", "osrt", "cudnn", "mpi", "ucx", "oshmem", "openacc", "openmp"),
    *("python-gil", "syscall", "gds", "nvvideo", "nvmedia", "tegra-accelerators", "wddm", "fastrpc", "none"),
    *_WITH_VERBOSE,
    *(f"{api}-verbose" for api in _WITH_VERBOSE),
    *_WITH_ANNOTATIONS,
    *(f"{api}-annotations" for api in _WITH_ANNOTATIONS),
)
_HELP = re.compile(r"-t, --trace=\s+Possible values are (.*?)\.", re.DOTALL)
_TIMEOUT_S = 10


def check_trace(text: str, nsys_path: str | None = None) -> None:
    """Raise UsageError for a value that no version of nsys knows, nor the nsys of this machine."""
    unknown = [word for word in text.split(",") if word not in KNOWN]
    wrong = [word for word in unknown if word not in _known_here(nsys_path)]
    if not wrong:
        return
    cure = "separate values with commas alone" if " " in text else did_you_mean(wrong[0], KNOWN)
    raise UsageError(
        f"invalid trace {text!r}: no value {wrong[0]!r}", cure or f"values: {', '.join(sorted(KNOWN))}"
    )


def _known_here(nsys_path: str | None) -> set[str]:
    """Return the values that the help text of the nsys of this machine names: it can be newer than KNOWN."""
    with suppress(Unavailable, OSError, subprocess.SubprocessError):
        nsys, _ = find.find_nsys(nsys_path)
        command = [nsys.path, "profile", "--help"]
        done = run_tool(command, _TIMEOUT_S)
        if values := _HELP.search(done.stdout + done.stderr):
            return set(re.findall(r"'([\w-]+)'", values[1]))
    return set()
