"""Print the command with which Nsight Compute examines one kernel of a capture."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from nsyswrap.analysis.kernel_instance import KernelInstance, judged_kernels, median_instance
from nsyswrap.analysis.kernel_names import readable
from nsyswrap.analysis.no_gpu_work.evidence import CaptureEvidence, run_facts
from nsyswrap.base.errors import CommandHint, NotInCapture, UsageError
from nsyswrap.base.text import counted, printable, shorten, unknown
from nsyswrap.base.units import duration
from nsyswrap.capture.capture import Capture
from nsyswrap.cli.output import note
from nsyswrap.reports.wording.checks import why_absent

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
    if CaptureEvidence(capture.whole, run_facts(capture.source)).is_partial:
        note("  recording began later than the program: add the earlier launches to --launch-skip")
    return printable(shlex.join(command_of(one, program)))


def check_kernel(name: str) -> None:
    """Raise UsageError for a capture in the place of the kernel, which the option takes behind it."""
    if name.endswith((".sqlite", ".nsys-rep")):
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
