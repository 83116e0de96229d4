"""Every error nsyswrap raises on purpose, and the exit code each one ends the program with.

    NsyswrapError
    ├── CheckFailed            1   a check said no (redact --check)
    ├── CompileFailed          1   nvcc refused a source
    ├── ScenarioFailed         1   a scenario could not be built, or its program's code when that failed
    ├── UsageError             2   options that do not go together
    ├── CaptureError          65
    │   ├── NotACapture            not SQLite, or not an nsys export
    │   ├── DamagedCapture         an nsys export that cannot be read to its end
    │   └── NotInCapture           readable, but lacks what was asked for
    ├── Unavailable           69   nsys, nvcc, a GPU: missing or unusable
    ├── OutputError           73   the output exists, or cannot be written
    ├── PlanError             78   a plan of a batch that cannot be used as it is
    ├── NotExecutable        126   the program is there but cannot be executed
    └── ProgramNotFound      127   there is no such program

How a run ended that was started (70 nsys failed, 75 timed out, 129/130/143 interrupted, the program's own
code) is no exception but the ``Status`` of its run folder. A message says what is wrong and where;
``hint`` says what to do next.
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


class CompileFailed(NsyswrapError):
    """nvcc refused a source; the message holds its own words."""


class ScenarioFailed(NsyswrapError):
    """A scenario could not be built, or its program failed."""

    def __init__(self, message: str, hint: str = "", exit_code: int = 1) -> None:
        super().__init__(message, hint)
        self.exit_code = exit_code


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


class OutputError(NsyswrapError):
    """The output exists already, or cannot be written."""

    exit_code = 73


class PlanError(NsyswrapError):
    """A plan of a batch has a wrong key or value."""

    exit_code = 78


class NotExecutable(NsyswrapError):
    """The program exists but cannot be executed."""

    exit_code = 126


class ProgramNotFound(NsyswrapError):
    """There is no such program."""

    exit_code = 127
