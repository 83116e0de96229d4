"""Make a short real recording and read it back: it shows that recording works on this machine."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from nsyswrap.api import captures, runs
from nsyswrap.base import paths
from nsyswrap.base.check import Check
from nsyswrap.base.errors import NsyswrapError, Unavailable
from nsyswrap.base.files import tail
from nsyswrap.base.nsys.options import RecordingOptions
from nsyswrap.base.run_folder import EXPORT, PROGRAM_ERRORS
from nsyswrap.record import gpus
from nsyswrap.record.doctor.programs import probe as program
from nsyswrap.record.program import Program, RunSpec
from nsyswrap.reports.wording.checks import why_no_gpu_work

_TIMEOUT_S = 120
_ERRORS_END = 1 << 16  # bytes of what the program printed on stderr that are read
_RECORDED = {"kernel": ("kernels", program.ROUNDS), "memcpy": ("copies", program.COPIES)}


def probe() -> Iterator[Check]:
    """Record two seconds of GPU work into a private folder, compare the capture with it, remove the folder.

    Without a GPU the program works on the CPU. Raises KeyboardInterrupt if a signal ended the run.
    """
    try:
        private = tempfile.TemporaryDirectory(prefix="nsyswrap-probe-")
    except OSError as error:
        yield Check("problem", "recording", f"no folder for temporary files: {error.strerror}")
        return
    try:
        with private as folder:
            yield from _probe(Path(folder) / "run", gpus.query().error)
    except Unavailable:
        yield Check("unknown", "recording", "not tried: no nsys works")
    except NsyswrapError as error:
        yield Check("problem", "recording", error.message, error.hint)
    except OSError as error:
        yield Check("problem", "recording", f"the probe failed: {error}")


def _probe(folder: Path, no_gpu: str) -> Iterator[Check]:
    begun = time.monotonic()
    status = runs.run(_spec(folder, "cpu" if no_gpu else "gpu")).status
    if status.outcome == "interrupted":
        raise KeyboardInterrupt
    if status.outcome != "done":
        text = "; ".join(filter(None, (status.message, _last_error(folder))))
        hints = (part for part in status.hint.split("; ") if str(folder) not in part)  # it is removed
        yield Check("problem", "recording", text, "; ".join(hints))
        return
    capture = captures.open_capture(folder)
    took_s, size = time.monotonic() - begun, paths.size(folder / EXPORT)
    text = f"two seconds recorded and read back in {took_s:.1f} s ({size / 1e6:.1f} MB, removed)"
    yield Check("ok", "recording", text)
    yield Check("unknown", "GPU work", no_gpu) if no_gpu else gpu_work(capture)


def _last_error(folder: Path) -> str:
    """Return the last line that the program wrote on stderr; empty if there is none."""
    try:
        errors = tail(folder / PROGRAM_ERRORS, _ERRORS_END).decode(errors="replace")
    except OSError:
        return ""
    return errors.strip().rpartition("\n")[2]


def _spec(folder: Path, device: str) -> RunSpec:
    argv = (sys.executable, program.__file__, device)
    # `is_locked` keeps this run out of the list of recent runs
    return RunSpec(
        Program(argv, "probe"),
        folder,
        RecordingOptions(stats=False, timeout_s=_TIMEOUT_S),
        keep_output=True,
        keep_errors=True,
        is_locked=True,
    )


def gpu_work(capture: captures.CaptureReader) -> Check:
    """Compare the events in the capture with what the program did."""
    counts = {kind: (capture.count(kind), made, noun) for kind, (noun, made) in _RECORDED.items()}
    text = ", ".join(f"{count} of {made} {noun} recorded" for count, made, noun in counts.values())
    if all(count == made for count, made, _ in counts.values()):
        return Check("ok", "GPU work", text)
    if not any(count for count, _, _ in counts.values()):
        cause = why_no_gpu_work(capture)[0]
        return Check("problem", "GPU work", f"{text}: {cause.text}", cause.cure)
    losses = [loss.text for loss in capture.diagnostics if loss.loss]
    return Check("problem", "GPU work", "; ".join([text, *(f"nsys: {loss}" for loss in losses)]))
