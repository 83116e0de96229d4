"""Print the command with which Nsight Compute examines one kernel of a capture."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nsyswrap.analysis.advice.context import AdviceContext
from nsyswrap.analysis.gpu_operations import KERNEL, KINDS, gpu_operations_of
from nsyswrap.analysis.judged_process import judged_processes, main_process
from nsyswrap.analysis.kernel_names import classify, readable
from nsyswrap.analysis.no_gpu_work import CaptureEvidence
from nsyswrap.analysis.occupancy import blocks_at, multiprocessors
from nsyswrap.base import paths
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import CommandHint, NotInCapture, UsageError
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import counted, printable, shorten, unknown
from nsyswrap.base.units import duration
from nsyswrap.capture.capture import Capture
from nsyswrap.cli.folders import has_capture
from nsyswrap.cli.output import note
from nsyswrap.reports.wording.checks import why_absent


@dataclass(frozen=True)
class KernelInstance:
    """The launch of a kernel with the median duration among ``launches`` in the part that is judged.

    ``function`` is the name without namespaces and arguments. ``earlier`` counts the launches of kernels of
    this function, whatever their template arguments, that its process made before. ``few_blocks`` is True if
    it has fewer blocks than the GPU has multiprocessors.
    """

    name: str
    function: str
    kernel_class: str
    launches: int
    median_ns: int
    earlier: int
    few_blocks: bool


def judged_kernels(capture: Capture) -> dict[str, str]:
    """Return the function of each kernel by its full name, that with the most time in the judged part first.

    The part is that of the process with the most GPU work. Empty without kernels in it. Raises NotInCapture
    if none of them has a name.
    """
    if (context := _context(capture)) is None:
        return {}
    named, whole = context.kernels, context.capture.whole
    codes, first = np.unique(named.code, return_index=True)
    functions = whole.columns(KERNEL, "base_name")["base_name"][context.operations.row[named.rows[first]]]
    each = dict(zip(codes.tolist(), functions.tolist(), strict=True))
    by_time = sorted(filter(named.names.__getitem__, each), key=lambda code: -named.total_ns[code])
    if not by_time:
        raise NotInCapture(f"no kernel in {capture.source} has a name", "export the capture again")
    return {named.names[code]: whole.text(each[code]) or named.names[code] for code in by_time}


def median_instance(capture: Capture, name: str) -> KernelInstance:
    """Return the launch with the median duration of one of ``judged_kernels``, given by its full name."""
    if (context := _context(capture)) is None:
        raise KeyError(name)
    whole, named = context.capture.whole, context.kernels
    codes = [code for code, text in enumerate(named.names) if text == name]  # damaged exports repeat names
    rows = named.rows[np.isin(named.code, codes)]
    took = context.duration_ns(rows)
    at = int(np.argsort(took, kind="stable")[(len(rows) - 1) // 2])
    row, count = int(context.operations.row[rows[at]]), multiprocessors(whole)
    return KernelInstance(
        name,
        judged_kernels(capture)[name],
        classify(name, capture.view.classes),
        len(rows),
        int(took[at]),
        _earlier(whole, row),
        count is not None and int(blocks_at(whole, np.array([row]))[0]) < count,
    )


def _context(capture: Capture) -> AdviceContext | None:
    part = main_process(judged_processes(capture)) if capture.has(KERNEL) else None
    context = AdviceContext(part) if part else None
    return context if context and len(context.kernels.rows) else None


def _earlier(whole: Capture, row: int) -> int:
    """Return how many kernels of the same function its process launched before the kernel in this row.

    Kernels of one call, such as the launch of a graph, are in the order in which they ran.
    """
    every, functions = gpu_operations_of(whole), whole.columns(KERNEL, "base_name")["base_name"]
    mine = np.flatnonzero(every.kind == KINDS.index(KERNEL))
    mine = mine[functions[every.row[mine]] == functions[row]]
    owner, call, launched = every.global_pid[mine], every.call[mine], every.start_ns[mine]
    if whole.has("api"):
        calls = whole.columns("api", "start_ns")["start_ns"]
        launched = np.where(call >= 0, calls[call], launched)
    at = int(np.flatnonzero(every.row[mine] == row)[0])
    before = (launched < launched[at]) | ((launched == launched[at]) & (np.arange(len(mine)) < at))
    return int(np.count_nonzero(before & ((owner == owner[at]) | (owner[at] == MISSING))))


_PRODUCTS = ("gemm", "convolution", "attention")
_OTHER = "other"
_COMPUTE, _MEMORY = "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis"
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
_WIDTH, _MOST_NAMES = 60, 3  # columns of a name, and names in an error


def command_text(capture: Capture, name: str) -> str:
    """Return the command line for a kernel, and print on stderr which launch it profiles.

    ``name`` is a full or readable name, a function, or a part of them; empty for the kernel with the most
    time. Raises UsageError if no kernel has this name or several have it.
    """
    one = median_instance(capture, _chosen(capture, name))
    program = capture.info.command
    note(
        f"nsyswrap: profiles a launch of {_short(one.name)} that takes the median time, "
        f"{duration(one.median_ns)} ({counted(one.launches, 'launches')})"
    )
    if not program:
        note("  the capture does not name its program: replace PROGRAM")
    if CaptureEvidence(capture.whole, capture.run_facts).is_partial:
        note("  recording began later than the program: add the earlier launches to --launch-skip")
    return printable(shlex.join(command_of(one, program)))


def check_kernel(name: str) -> None:
    """Raise UsageError for a capture in the place of the kernel, which the option takes behind it."""
    is_path = name.endswith((".sqlite", ".nsys-rep")) or (
        paths.is_folder(name) and (os.sep in name or has_capture(Path(name)))
    )
    if is_path:
        remedy = CommandHint.of(["nsyswrap", "report", name, "--ncu"])
        raise UsageError(f"--ncu takes a kernel, not {name}", remedy)


def _chosen(capture: Capture, name: str) -> str:
    """Return the full name of a kernel; of one function or readable name that with the most time."""
    functions = judged_kernels(capture)
    if not functions:
        raise NotInCapture(f"no kernels in {capture.source}", why_absent([capture], ["kernel"]))
    if not name:
        return next(iter(functions))
    forms = {full: (full, function, readable(full)) for full, function in functions.items()}
    if same := [full for full, texts in forms.items() if name in texts]:
        return same[0]
    wanted = name.casefold()
    found = [full for full, texts in forms.items() if any(wanted in text.casefold() for text in texts)]
    if len(found) == 1:
        return found[0]
    if not found:
        longest = f"the judged part has {_listed([*functions])}"
        raise UsageError(*unknown("kernel", name, dict.fromkeys(functions.values()), longest))
    raise UsageError(
        f"{len(found)} kernels have {name!r} in their names", f"name one of them: {_listed(found)}"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(_short, names[:_MOST_NAMES])) + (", ..." if len(names) > _MOST_NAMES else "")


def _short(name: str) -> str:
    return repr(shorten(printable(readable(name)), _WIDTH))


def command_of(one: KernelInstance, program: tuple[str, ...]) -> list[str]:
    """Return the command line of ncu that profiles this launch alone.

    ncu matches the function's name, and counts the launches that match, in each process.
    """
    function = _SPECIAL.sub(r"\\\g<0>", one.function)
    return [
        *("ncu", "--target-processes", "all", "--kernel-name", f"regex:^{function}$"),
        *("--launch-skip", str(one.earlier), "--launch-count", "1"),
        *(word for section in sections(one) for word in ("--section", section)),
        *(program or ("PROGRAM",)),
    ]


def sections(one: KernelInstance) -> list[str]:
    """Return the sections of ncu that tell what bounds a kernel of this kind."""
    if one.few_blocks:
        return ["SpeedOfLight", "LaunchStats", "Occupancy"]
    if one.kernel_class in _PRODUCTS:
        return ["SpeedOfLight", _COMPUTE, "WarpStateStats"]
    both = [_COMPUTE] if one.kernel_class == _OTHER else []
    return ["SpeedOfLight", _MEMORY, *both, "Occupancy"]
