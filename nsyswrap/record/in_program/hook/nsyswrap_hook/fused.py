"""The operations of each kernel that torch.compile fused, from the code that Inductor generated."""

from __future__ import annotations

import re
import sys
from typing import Any

from . import notes

_OPERATIONS = re.compile(r"#.*Original ATen: \[(.*)\]")
_KERNEL = re.compile(r"(\w+) = async_compile\.triton\(|\s+(\w+)\.run\(")


def note() -> None:
    """Note them, if Inductor has compiled anything in this process."""
    cache: Any = sys.modules.get("torch._inductor.codecache")
    kernels: dict[str, list[str]] = {}
    for module in list(getattr(getattr(cache, "PyCodeCache", None), "modules", ())):
        with open(module.__file__, encoding="utf-8") as file:
            kernels.update(operations(file.read()))
    if kernels:
        notes.add(fused=kernels)


def operations(code: str) -> dict[str, list[str]]:
    """Return the ATen operations of each kernel in generated code, which stand in a comment above it."""
    kernels: dict[str, list[str]] = {}
    above: list[str] = []
    for line in code.splitlines():
        comment = _OPERATIONS.search(line)
        if comment:
            above = [text.strip() for text in comment[1].split(",") if text.strip()]
        kernel = _KERNEL.match(line)
        if kernel and above:
            kernels.setdefault(kernel[1] or kernel[2], above)
            above = []
    return kernels
