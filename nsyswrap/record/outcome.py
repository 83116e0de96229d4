"""Judge how a run ended, from nsys' exit, its output and its files."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.base import paths
from nsyswrap.base.errors import NsyswrapError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.nsys import command
from nsyswrap.base.nsys.options import RecordingOptions
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_folder import EXPORT, LOG, RECORDING, REPORT, Outcome, Status, free_space_note, is_full

if TYPE_CHECKING:
    from nsyswrap.record.program import RunSpec
    from nsyswrap.record.supervisor import NsysEnd

with lazy_imports():
    from nsyswrap.record import hooked, program


_SIGNALLED = 128  # added to the number of a signal in the exit code of nsys
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT)
_LEAST_ROOM = 4e6  # bytes: what nsys needs at least for its temporary files
_FAULTS = {
    "missed_end": "nsys did not notice that {} had ended, as if a process of nsys was killed",
    "hung": "nsys did nothing any more for a minute or longer, and was killed",
}
_RECORD_ELSEWHERE = "record where a GPU is, or omit --gpu-metrics"
_START_A_RANGE = "call cudaProfilerStart or open the NVTX range in the program"
_FAILED: tuple[Outcome, int] = ("nsys_failed", 70)
_FULL: tuple[Outcome, int] = ("disk_full", 73)


@dataclass(frozen=True)
class RunEvidence:
    """What nsys left behind, for judging a run.

    ``launcher_ran``: nsys started the program's launcher. ``error_number`` says why the program could not be
    executed, or is 0. ``log`` is the output of nsys. ``reimport_error`` says why exporting again failed, if
    it was tried. ``work`` is the private folder with nsys' files. ``unmoved``: recordings that could not be
    moved there. ``steps``: what the hook in the program noted. ``import_failed``: nsys imported the recording
    twice, in vain. ``gpu_error`` says why the machine has no usable GPU, or is empty.
    """

    ending: NsysEnd
    launcher_ran: bool
    error_number: int
    log: str
    reimport_error: NsyswrapError | None
    work: Path
    unmoved: Sequence[Path]
    steps: hooked.HookNotes
    import_failed: bool = False
    gpu_error: str = ""


def judge(spec: RunSpec, evidence: RunEvidence) -> Status:
    """Return how the run ended. Success needs a complete export: nsys' exit code does not tell."""
    ending, name = evidence.ending, spec.program.name
    if evidence.error_number:
        exit_code = 127 if evidence.error_number == errno.ENOENT else 126
        message = f"{name} could not be executed: {os.strerror(evidence.error_number)}"
        return Status("not_started", None, ending.code, exit_code, message)
    lack = command.check_export(evidence.work / EXPORT)
    if ending.timed_out:
        words, hint = _cut_short(
            f"stopped after --timeout {spec.options.timeout_s:g} s", lack, spec, evidence
        )
        return Status("timed_out", None, ending.code, 75, words, hint)
    if ending.signal is not None:
        words, hint = _cut_short(f"stopped by {ending.signal.name}", lack, spec, evidence)
        return Status("interrupted", None, ending.code, 128 + ending.signal, words, hint)
    return _judge_undisturbed(spec, evidence, lack)


def _judge_undisturbed(spec: RunSpec, evidence: RunEvidence, lack: str) -> Status:
    """Judge a run that we did not stop; an option may have made nsys stop it."""
    ending, name = evidence.ending, spec.program.name
    recorded = 0 if lack else command.recorded_s(evidence.work / EXPORT)
    stopped = ending.killed or spec.options.ended_program(ending.code, evidence.log, recorded)
    unknown = stopped or ending.code < 0 or ending.fault or command.lost_its_agent(evidence.log)
    crashed = bool(lack) and ending.code - _SIGNALLED in _CRASHES  # the program, or nsys inside it
    program_code = None if unknown or crashed or not evidence.launcher_ran else ending.code
    early, hint = _failed_early(spec, evidence) if lack and ending.code and not unknown else ("", "")
    if early:  # this is no fault of nsys
        message = f"{name} ended with {_exit_code_text(ending.code)} {early}"
        return Status("program_failed", ending.code, ending.code, ending.code, message, hint)
    if lack or ending.code < 0 or ending.fault or not evidence.launcher_ran:
        meaning = _fault_and_cure(spec, evidence)[0]  # "... cannot be exported: the disk is full", too
        is_full = bool(lack) and evidence.launcher_ran and meaning.endswith(command.DISK_FULL[0])
        outcome, code = _FULL if is_full else _FAILED
        return Status(outcome, program_code, ending.code, code, *_failure(spec, evidence, lack))
    missing = hooked.shortfall(spec.options, evidence.steps, name)
    if stopped or ending.code == 0:
        return Status("done", program_code, ending.code, 0, missing)
    message = f"{name} ended with {_exit_code_text(ending.code)}" + (f"; {missing}" if missing else "")
    return Status(
        "program_failed", program_code, ending.code, ending.code, message, program.cure_of(spec.program)
    )


def not_redacted(spec: RunSpec, status: Status, error: NsyswrapError) -> Status:
    """Return the status of a run whose export was removed, as its environment could not be."""
    words = f"the export was deleted, because its environment could not be removed: {error.message}"
    if spec.options.discard_rep:
        cure = "free some disk space and profile again"
    else:
        cure = f"free some disk space, then: nsyswrap report {shlex.quote(str(spec.output))}"
    room = free_space_note(spec.output)
    message = "; ".join(filter(None, (words, status.message)))
    return Status("not_redacted", status.program_code, status.nsys_code, 73, message, f"{cure} ({room})")


def _exit_code_text(code: int) -> str:
    return f"exit code {code}" + (f" (signal {code - 128})" if code - 128 in signal.valid_signals() else "")


def _cut_short(words: str, lack: str, spec: RunSpec, evidence: RunEvidence) -> tuple[str, str]:
    if lack and not evidence.launcher_ran:
        return f"{words}; nsys had not started the program", temporary_room(spec.options.env)
    if lack and spec.options.steps is not None and evidence.steps.first is None:
        return f"{words}; {_why_no_steps(spec, evidence)[0]}", ""
    if lack:  # the log of an nsys that we killed tells what our kill did to it
        meaning, cure = ("", "") if evidence.ending.killed else command.fault(evidence.log)
        hint = "; ".join(filter(None, (cure, _read_command(spec, evidence))))
        return f"{words}; no report: {meaning or lack}", hint
    missing = hooked.shortfall(spec.options, evidence.steps, spec.program.name)
    return "; ".join(filter(None, (words, missing))), ""


def _failure(spec: RunSpec, evidence: RunEvidence, lack: str) -> tuple[str, str]:
    """Return message and hint for a run without a report, or with a report that ends before the program."""
    meaning, cure = _fault_and_cure(spec, evidence)
    if cure == command.DISK_FULL[1]:
        cure += f" ({free_space_note(spec.output)})"
    parts = (cure, _read_command(spec, evidence) if lack else "", f"output of nsys: {spec.output / LOG}")
    hint = "; ".join(filter(None, parts))
    if lack:
        if meaning and meaning == _why_no_steps(spec, evidence)[0]:
            return meaning, hint
        return f"nsys wrote no complete export: {meaning or lack}", hint
    if not evidence.launcher_ran:
        return f"nsys did not start {spec.program.name}: {meaning or 'reason unknown'}", hint
    if evidence.ending.fault:
        return f"{meaning}; the report is complete", hint
    return f"{meaning}; the program was ended too, and the report ends there", hint


def _read_command(spec: RunSpec, evidence: RunEvidence) -> str:
    recordings = [spec.output / name for name in (REPORT, RECORDING) if paths.exists(evidence.work / name)]
    recordings += [path for path in evidence.unmoved if path.suffix != Path(EXPORT).suffix]
    if not recordings:
        return ""
    first = recordings[0]
    if first.name == RECORDING and evidence.import_failed and not _is_full(spec):
        return f"{first} cannot be read: nsys cannot import it"
    return f"recording kept in {first}; to read it: nsyswrap report {shlex.quote(str(first))}"


def _fault_and_cure(spec: RunSpec, evidence: RunEvidence) -> tuple[str, str]:
    return _fault_in_sight(spec, evidence) or _cause_in_options(spec, evidence)


def _fault_in_sight(spec: RunSpec, evidence: RunEvidence) -> tuple[str, str] | None:
    """Return fault and cure that nsys, the disk or another export shows; None if none does."""
    named = command.fault(evidence.log)
    if named == command.NO_COUNTERS and evidence.gpu_error:
        return f"--gpu-metrics needs a GPU: {evidence.gpu_error}", _RECORD_ELSEWHERE
    if named[0]:
        return named
    if _is_full(spec):  # nsys could not write this into its log
        return command.DISK_FULL
    if fault := _fault_of_nsys(spec, evidence):
        return fault
    if evidence.reimport_error:
        return evidence.reimport_error.message, evidence.reimport_error.hint
    return None


def _fault_of_nsys(spec: RunSpec, evidence: RunEvidence) -> tuple[str, str] | None:
    ending, room = evidence.ending, temporary_room(spec.options.env)
    lacks_room = shutil.disk_usage(temporary_place(spec.options.env)).free < _LEAST_ROOM
    if lacks_room and ending.fault != "missed_end":  # nsys maps files there: it crashes or waits forever
        return "nsys had too little space in TMPDIR", room
    if ending.fault:
        return _FAULTS[ending.fault].format(spec.program.name), ""
    if ending.killed:
        return "nsys could not finish: its temporary folder was deleted while the program ran", ""
    if ending.code < 0:
        cure = room if -ending.code == signal.SIGBUS else ""  # of a folder that is emptied by now
        return f"nsys itself was killed by signal {-ending.code}", cure
    return None


def _is_full(spec: RunSpec) -> bool:
    return any(map(is_full, (spec.output, temporary_place(spec.options.env))))


def _cause_in_options(spec: RunSpec, evidence: RunEvidence) -> tuple[str, str]:
    log, options = evidence.log.strip(), spec.options
    words = command.quoted(log)
    if not evidence.launcher_ran:
        return (f"nsys says: {words}" if words else ""), ""
    start = _start_missed(options, log)
    if start and options.steps is not None:
        return _why_no_steps(spec, evidence)
    if start and options.capture_range:
        return f"{start} never started", _START_A_RANGE
    if start:
        return f"{spec.program.name} ended before {start}", "use a shorter --delay"
    if log:
        return (f"nsys says: {words}" if words else ""), ""
    return "nsys ended without a report and without a message", ""


def _start_missed(options: RecordingOptions, log: str) -> str:
    """Return what was to be recorded and never began, though nsys did its work; empty if nothing shows it."""
    if command.RANGE_STARTED not in log:
        if options.steps is not None:
            return f"steps {options.steps}"
        if options.capture_range:
            return f"the capture range {options.capture_range}"
    return "" if options.delay is None or log else f"the recording started: --delay is {options.delay:g} s"


def _failed_early(spec: RunSpec, evidence: RunEvidence) -> tuple[str, str]:
    """Return what a failing program did not reach, and a hint; empty if it did, or if nsys shows a fault."""
    options = spec.options
    start = _start_missed(options, evidence.log.strip())
    if not start or not evidence.launcher_ran or _fault_in_sight(spec, evidence):
        return "", ""
    hint = program.cure_of(spec.program)
    if options.steps is not None:
        return hooked.failed_before(options, evidence.steps), hint
    if options.capture_range:
        return f"before {start} started", hint or _START_A_RANGE
    return f"before {start}", hint


def _why_no_steps(spec: RunSpec, evidence: RunEvidence) -> tuple[str, str]:
    return hooked.why_none(spec.options, evidence.steps, spec.program.name)


def temporary_room(env: Mapping[str, str]) -> str:
    """Return the free space for nsys' temporary files. ``env`` is added to our environment."""
    folder = temporary_place(env)
    try:
        room = free_space_note(folder)
    except OSError as error:
        room = f"{folder}: {error.strerror}"
    return f"nsys needs space in TMPDIR: {room}"


def temporary_place(env: Mapping[str, str]) -> Path:
    """Return the folder for temporary files of a run. ``env`` is added to our environment."""
    return Path(env.get("TMPDIR") or os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - the default of nsys
