"""How a run ended: what nsys did, said and left, made into a Status."""

from __future__ import annotations

import errno
import os
import shlex
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.base.nsys import command as nsys
from nsyswrap.base.run_folder import EXPORT, LOG, RECORDING, REPORT, Status, free_space_note, is_full

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nsyswrap.base.errors import NsyswrapError
    from nsyswrap.record.spec import RunSpec
    from nsyswrap.record.supervisor import Ending


@dataclass(frozen=True)
class Seen:
    """What there is to judge a run by.

    ``launcher_ran``: nsys came to start the program; ``error_number``: why that could not be executed, else
    0. ``log``: what nsys said. ``second``: why the export could not be made once more either. ``work``: the
    private folder with what nsys made; ``left``: recordings that could not be moved there.
    """

    ending: Ending
    launcher_ran: bool
    error_number: int
    log: str
    second: NsyswrapError | None
    work: Path
    left: Sequence[Path] = ()


def judge(spec: RunSpec, seen: Seen) -> Status:
    """Say how the run ended. Only a complete export is success: nsys' exit status is not believed."""
    ending, name = seen.ending, spec.program.name
    if seen.error_number:
        exit_code = 127 if seen.error_number == errno.ENOENT else 126
        message = f"{name} could not be executed: {os.strerror(seen.error_number)}"
        return Status("not_started", None, ending.code, exit_code, message)
    lack = nsys.check_export(seen.work / EXPORT)
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
    recorded = 0 if lack else nsys.recorded_s(seen.work / EXPORT)
    stopped = ending.killed or spec.options.ended_program(ending.code, seen.log, recorded)
    known = seen.launcher_ran and ending.code >= 0 and not stopped
    program_code = ending.code if known else None
    if lack or ending.code < 0 or not seen.launcher_ran:
        return Status("nsys_failed", program_code, ending.code, 70, *_failure(spec, seen, lack))
    if stopped or ending.code == 0:
        return Status("done", program_code, ending.code, 0)
    message = f"{name} ended with {_said(ending.code)}"
    return Status("program_failed", program_code, ending.code, ending.code, message, spec.program.if_it_fails)


def not_redacted(spec: RunSpec, status: Status, error: NsyswrapError) -> Status:
    """Return how a run ended whose export still held the environment, and had to be removed."""
    words = f"the environment could not be taken out of the export, which was removed: {error}"
    if spec.discard_rep:
        cure = "nothing of the recording is left; make room and profile again"
    else:
        cure = f"make room, then: nsyswrap report {shlex.quote(str(spec.output))}"
    room = free_space_note(spec.output)
    message = "; ".join(filter(None, (words, status.message)))
    return Status("not_redacted", status.program_code, status.nsys_code, 73, message, f"{cure} ({room})")


def _said(code: int) -> str:
    return f"exit code {code}" + (f" (signal {code - 128})" if code - 128 in signal.valid_signals() else "")


def _cut_short(words: str, lack: str, spec: RunSpec, seen: Seen) -> tuple[str, str]:
    """Return the message and hint of a run that we ended."""
    if lack and not seen.launcher_ran:
        return f"{words}; nsys had not started the program", temporary_room(spec.env)
    return (f"{words}; no report: {lack}", _way_on(spec, seen)) if lack else (words, "")


def _failure(spec: RunSpec, seen: Seen, lack: str) -> tuple[str, str]:
    """Return the message and hint of a run that nsys left without a report, or ended before the program."""
    meaning, cure = _told(spec, seen)
    if cure == nsys.DISK_FULL[1]:
        cure += f" ({free_space_note(spec.output)})"
    parts = (cure, _way_on(spec, seen) if lack else "", f"all nsys said: {spec.output / LOG}")
    hint = "; ".join(filter(None, parts))
    if lack:
        return f"nsys left no complete export: {meaning or lack}", hint
    if not seen.launcher_ran:
        return f"nsys did not start {spec.program.name}: {meaning or 'it does not say why'}", hint
    return f"{meaning}, and the program with it: the report ends there", hint


def _way_on(spec: RunSpec, seen: Seen) -> str:
    """Return the command that makes a report of what was recorded; empty: nothing was."""
    found = [spec.output / name for name in (REPORT, RECORDING) if (seen.work / name).exists()]
    found += [path for path in seen.left if path.suffix != Path(EXPORT).suffix]
    if not found:
        return ""
    return f"what it recorded lies in {found[0]}; to read it: nsyswrap report {shlex.quote(str(found[0]))}"


def _told(spec: RunSpec, seen: Seen) -> tuple[str, str]:
    """Return what went wrong and what to do, as far as something says so; empty: nothing does."""
    fault = nsys.fault(seen.log)
    if fault[0]:
        return fault
    if any(map(is_full, (spec.output, temporary_place(spec.env)))):  # the log has no room to say so
        return nsys.DISK_FULL
    if seen.ending.killed:
        return "nsys could not end: its temporary folder was removed while the program ran", ""
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
    if options.delay is None:
        return "nsys ended without a report, and without a word", ""
    words = f"{spec.program.name} ended before nsys began to record: --delay is {options.delay:g} s"
    return words, "begin to record sooner"


def temporary_room(env: Mapping[str, str]) -> str:
    """Return how much room nsys has for its temporary files; ``env``: what the run adds to ours."""
    folder = temporary_place(env)
    try:
        room = free_space_note(folder)
    except OSError as error:
        room = f"{folder}: {error.strerror}"
    return f"room in TMPDIR, which nsys needs: {room}"


def temporary_place(env: Mapping[str, str]) -> Path:
    """Return where temporary files of a run go; ``env``: what the run adds to our environment."""
    return Path(env.get("TMPDIR") or os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - as nsys does
