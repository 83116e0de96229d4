"""How a run ended: what nsys did, said and left, made into a Status."""

from __future__ import annotations

import errno
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.base.nsys import command as nsys
from nsyswrap.base.run_folder import EXPORT, LOG, Status, free_space_note, is_full

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nsyswrap.base.errors import NsyswrapError
    from nsyswrap.record.spec import RunSpec
    from nsyswrap.record.supervisor import Ending


@dataclass(frozen=True)
class Seen:
    """What there is to judge a run by.

    ``launcher_ran``: nsys came to start the program; ``error_number``: why that could not be executed, else
    0. ``log``: what nsys said. ``second``: why the export could not be made once more either.
    """

    ending: Ending
    launcher_ran: bool
    error_number: int
    log: str
    second: NsyswrapError | None


def judge(spec: RunSpec, seen: Seen) -> Status:
    """Say how the run ended. Only a complete export is success: nsys' exit status is not believed."""
    ending, name = seen.ending, spec.program.name
    if seen.error_number:
        exit_code = 127 if seen.error_number == errno.ENOENT else 126
        message = f"{name} could not be executed: {os.strerror(seen.error_number)}"
        return Status("not_started", None, ending.code, exit_code, message)
    lack = nsys.check_export(spec.output / EXPORT)
    if ending.timed_out:
        words, hint = _cut_short(f"stopped after --timeout {spec.timeout_s:g} s", lack, spec, seen)
        return Status("timed_out", None, ending.code, 75, words, hint)
    if ending.signal is not None:
        words, hint = _cut_short(f"stopped by {ending.signal.name}", lack, spec, seen)
        return Status("interrupted", None, ending.code, 128 + ending.signal, words, hint)
    return _judge_undisturbed(spec, seen, lack)


def _judge_undisturbed(spec: RunSpec, seen: Seen, lack: str) -> Status:
    """Judge a run that nobody told to stop, unless nsys was asked to."""
    ending, name = seen.ending, spec.program.name
    recorded = 0 if lack else nsys.recorded_s(spec.output / EXPORT)
    stopped = ending.killed or spec.options.ended_program(ending.code, seen.log, recorded)
    known = seen.launcher_ran and ending.code >= 0 and not stopped
    program_code = ending.code if known else None
    if lack or ending.code < 0:
        return Status("nsys_failed", program_code, ending.code, 70, *_failure(spec, seen, lack))
    if stopped or ending.code == 0:
        return Status("done", program_code, ending.code, 0)
    message = f"{name} ended with {_said(ending.code)}"
    return Status("program_failed", program_code, ending.code, ending.code, message, spec.program.if_it_fails)


def _said(code: int) -> str:
    return f"exit code {code}" + (f" (signal {code - 128})" if code > 128 else "")  # noqa: PLR2004


def _cut_short(words: str, lack: str, spec: RunSpec, seen: Seen) -> tuple[str, str]:
    """Return the message and hint of a run that we ended."""
    if lack and not seen.launcher_ran:
        return f"{words}; nsys had not started the program", temporary_room(spec.env)
    return words + (f"; no report: {lack}" if lack else ""), ""


def _failure(spec: RunSpec, seen: Seen, lack: str) -> tuple[str, str]:
    """Return the message and hint of a run that nsys left without a report, or ended before the program."""
    meaning, cure = _told(spec, seen)
    recording = ", ".join(nsys.left_elsewhere(seen.log))
    if cure == nsys.DISK_FULL[1]:
        cure += f" ({free_space_note(spec.output)})"
        if not seen.log:  # there was no room to name it
            recording = f"{_temporary(spec.env)}/nsys-report-*.qdstrm"
    left = f"what it recorded, the environment too, lies in {recording}" if recording else ""
    hint = "; ".join(part for part in (cure, left, f"all nsys said: {spec.output / LOG}") if part)
    if lack:
        return f"nsys left no complete export: {meaning or lack}", hint
    return f"{meaning}, and the program with it: the report ends there", hint


def _told(spec: RunSpec, seen: Seen) -> tuple[str, str]:
    """Return what went wrong and what to do, as far as something says so; empty: nothing does."""
    fault = nsys.fault(seen.log)
    if fault[0]:
        return fault
    if is_full(spec.output):  # then the log has no room for nsys to say so
        return nsys.DISK_FULL
    if seen.ending.code < 0:
        number = -seen.ending.code
        cure = temporary_room(spec.env) if number == signal.SIGBUS else ""  # it maps files there
        return f"nsys itself was killed by signal {number}", cure
    if seen.second:
        return str(seen.second), seen.second.hint
    return _guessed(spec, seen)


def _guessed(spec: RunSpec, seen: Seen) -> tuple[str, str]:
    """Return what went wrong, going by what was asked for and did not come; empty: unknown."""
    log, options = seen.log.strip(), spec.options
    if not seen.launcher_ran:
        return (f"nsys says: {log.splitlines()[-1]}" if log else ""), ""
    if options.capture_range and nsys.RANGE_STARTED not in log:
        return (
            f"the capture range {options.capture_range} never began",
            "the program has to call cudaProfilerStart, or to open the NVTX range, while nsys runs",
        )
    if log:
        return "", ""
    delay = "" if options.delay is None else f": --delay is {options.delay:g} s"
    return f"{spec.program.name} ended before nsys began to record{delay}", "begin to record sooner"


def temporary_room(env: Mapping[str, str]) -> str:
    """Return how much room nsys has for its temporary files; ``env``: what the run adds to ours."""
    folder = _temporary(env)
    try:
        room = free_space_note(folder)
    except OSError as error:
        room = f"{folder}: {error.strerror}"
    return f"room in TMPDIR, which nsys needs: {room}"


def _temporary(env: Mapping[str, str]) -> Path:
    return Path(env.get("TMPDIR") or os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - as nsys does
