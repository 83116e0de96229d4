"""Tell what a program is written with: a framework of Python, Python, OpenACC or CUDA C++."""

from __future__ import annotations

import re
from pathlib import PurePath

from nsyswrap.analysis.frameworks import JAX, PYTORCH, framework_of
from nsyswrap.analysis.gpu_operations import KERNEL
from nsyswrap.analysis.names import numbered_names
from nsyswrap.analysis.nvtx_ranges import domain_names
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import XLA_DOMAIN

CUPY, PYTHON, OPENACC, CUDA = "cupy", "python", "openacc", "cuda"
IN_PYTHON = (PYTORCH, JAX, CUPY, PYTHON)
LANGUAGES = (*IN_PYTHON, OPENACC, CUDA)
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_CUPY = re.compile(r"^cupy_")
# The compilers of NVIDIA and GCC name a kernel after the function and the line of its loop.
_OPENACC = re.compile(r"_\d+_gpu(?:__red)?$|^nvkernel_|\$_omp_fn\$\d+$")


@per_capture
def language_of(whole: Capture) -> str:
    """Return the one of LANGUAGES that a program is written with, by its kernels, ranges and command."""
    framework = framework_of(whole)
    if framework:
        return framework
    if whole.has("nvtx") and XLA_DOMAIN in domain_names(whole):
        return JAX
    names = _kernel_names(whole)
    if any(map(_CUPY.search, names)):
        return CUPY
    if whole.has("openacc") or any(map(_OPENACC.search, names)):
        return OPENACC
    command = whole.info.command
    return PYTHON if command and _PYTHON.fullmatch(PurePath(command[0]).name) else CUDA


def _kernel_names(whole: Capture) -> list[str]:
    if not whole.has(KERNEL):
        return []
    ids, _ = numbered_names(whole.viewed(names="full"), KERNEL)
    return [text or "" for text in whole.texts(ids)]
