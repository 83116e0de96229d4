"""Every error nsyswrap raises on purpose, and the exit code each one ends the program with.

    NsyswrapError
    ├── CheckFailed            1   a check said no (redact --check)
    ├── UsageError             2   options that do not go together
    ├── CaptureError          65
    │   ├── NotACapture            not SQLite, or not an nsys export
    │   ├── DamagedCapture         an nsys export that cannot be read to its end
    │   └── NotInCapture           readable, but lacks what was asked for
    ├── Unavailable           69   nsys, nvcc, a GPU: missing or unusable
    ├── NsysFailed            70   nsys left no complete export
    ├── OutputError           73   the output exists, or cannot be written
    ├── RunTimedOut           75   --timeout ended the run
    ├── NotExecutable        126   the program is there but cannot be executed
    ├── ProgramNotFound      127   there is no such program
    └── Interrupted      130/143   Ctrl-C, SIGTERM (128 + the signal)

A message says what is wrong and where; ``hint`` says what to do next.
"""

from __future__ import annotations


class NsyswrapError(Exception):
    """An error with a message for the user, an optional next step, and an exit code."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class CheckFailed(NsyswrapError):
    """A check the user asked for said no."""


class UsageError(NsyswrapError):
    """Options or arguments that cannot be used as they are."""

    exit_code = 2


class CaptureError(NsyswrapError):
    """A capture that cannot answer."""

    exit_code = 65


class NotACapture(CaptureError):
    """The file is no Nsight Systems export."""


class DamagedCapture(CaptureError):
    """The file is an export, but SQLite cannot read all of it."""


class NotInCapture(CaptureError):
    """The capture is fine, but it lacks the events that were asked for."""


class Unavailable(NsyswrapError):
    """A tool or device that is needed is missing or unusable."""

    exit_code = 69


class NsysFailed(NsyswrapError):
    """Nsys did not leave a complete, readable export."""

    exit_code = 70


class OutputError(NsyswrapError):
    """The output exists already, or cannot be written."""

    exit_code = 73


class RunTimedOut(NsyswrapError):
    """The run was ended by its time limit."""

    exit_code = 75


class NotExecutable(NsyswrapError):
    """The program exists but cannot be executed."""

    exit_code = 126


class ProgramNotFound(NsyswrapError):
    """There is no such program."""

    exit_code = 127


class Interrupted(NsyswrapError):
    """The run was ended by a signal to nsyswrap itself."""

    def __init__(self, signal_number: int, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.exit_code = 128 + signal_number
