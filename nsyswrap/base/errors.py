"""The errors that nsyswrap raises on purpose, with their exit codes.

    NsyswrapError
    ├── CheckFailed            1   a requested check failed (redact --check)
    ├── CompileFailed          1   nvcc could not build a program
    ├── ScenarioFailed         1   a scenario could not be built, or its program's code if that failed
    ├── UsageError             2   invalid options or arguments
    ├── CaptureError          65
    │   ├── NotACapture            not SQLite, or not an nsys export
    │   ├── DamagedCapture         an nsys export that cannot be read completely
    │   ├── NotInCapture           a readable capture without the requested events
    │   └── Unreadable             a path that may not be read, or whose file system fails
    ├── Unavailable           69   nsys, nvcc or a GPU is missing or unusable
    ├── OutputError           73   the output exists, or cannot be written
    ├── PlanError             78   invalid plan of a batch
    ├── NotExecutable        126   the program exists but cannot be executed
    └── ProgramNotFound      127   the program does not exist

A run that was started raises none of these for its result: nsys failed (70), timed out (75), interrupted
(129, 130, 143) or the program's own code. The ``Status`` of its run folder holds the result. ``message``
says what is wrong and where. ``hint`` says what to do next. ``str`` of an error has both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nsyswrap.base.lazy import lazy_imports

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from typing_extensions import Self

with lazy_imports():
    import shlex


class CommandHint(str):
    """The hint of an error that names a command, whose words are ``argv``: people read it, programs run it.

    Words in capitals, such as OUT, are for the user to replace.
    """

    __slots__ = ("argv",)
    argv: tuple[str, ...]

    @classmethod
    def of(cls, argv: Sequence[object], text: str = "{}") -> Self:
        """Return ``text`` with the command, quoted for a shell, in place of ``{}``."""
        words = tuple(map(str, argv))
        before, _, behind = text.partition("{}")
        hint = cls(f"{before}{shlex.join(words)}{behind}")
        hint.argv = words
        return hint


class NsyswrapError(Exception):
    """An error with a message for the user, an optional next step and an exit code.

    ``remedy`` is the command that the hint names, word by word; empty if it names none. ``retryable``: the
    same command can succeed later, without a change, as what was busy ends or answers.
    ``has_lines``: the line breaks of the message are ours; others are of a name, and are printed as escapes.
    """

    exit_code = 1
    has_lines = False

    def __init__(self, message: str, hint: str = "", *, retryable: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.retryable = retryable

    @property
    def remedy(self) -> tuple[str, ...]:
        """The command that the hint names, as words."""
        return getattr(self.hint, "argv", ())

    @classmethod
    def of_lines(cls, lines: Iterable[str], hint: str = "") -> Self:
        """Return an error with a message of several lines."""
        error = cls("\n".join(lines), hint)
        error.has_lines = True
        return error

    def __str__(self) -> str:
        """Return the message, and the hint on a line of its own: so a traceback shows both."""
        return "\n".join(filter(None, (self.message, self.hint)))


class CheckFailed(NsyswrapError):
    """A check that the user requested failed."""


class CompileFailed(NsyswrapError):
    """nvcc could not build a program; the message has the output of nvcc."""

    has_lines = True


class ScenarioFailed(NsyswrapError):
    """A scenario could not be built, or its program failed."""

    has_lines = True

    def __init__(self, message: str, hint: str = "", exit_code: int = 1) -> None:
        super().__init__(message, hint)
        self.exit_code = exit_code


class UsageError(NsyswrapError):
    """Invalid options or arguments."""

    exit_code = 2


class CaptureError(NsyswrapError):
    """A capture that cannot be read, or that lacks what is needed."""

    exit_code = 65


class NotACapture(CaptureError):
    """The file is not an Nsight Systems export."""


class DamagedCapture(CaptureError):
    """The file is an export that SQLite cannot read completely."""


class NotInCapture(CaptureError):
    """The capture is readable but lacks the requested events.

    ``what`` is missing: from ``source``, and therefore from ``report``, either of which can be empty. With
    ``holds`` it is the object of a sentence: the source holds it. ``hint`` has the remedy.
    """

    def __init__(
        self, what: str, hint: str = "", *, source: object = "", report: str = "", holds: bool = False
    ) -> None:
        self.what, self.source, self.report, self.holds = what, str(source), report, holds
        super().__init__(f"{report}: {self.text()}" if report else self.text(), hint)

    def text(self, within: object = "", *, several: bool = False) -> str:
        """Return the message without the report, and without the source where the text is said of it.

        ``within`` is the source that is named in front, ``several``: that more than one is.
        """
        what = f"hold{'' if several else 's'} {self.what}" if self.holds else self.what
        if self.source in ("", str(within)):
            return what
        return f"{self.source}{'' if self.holds else ':'} {what}"


class Unreadable(CaptureError):
    """A path that this user may not look at, or whose file system fails.

    ``path`` is what a search leaves out for it, ``reason`` the system's.
    """

    path = ""
    reason = ""


class Unavailable(NsyswrapError):
    """A required tool or device is missing or unusable."""

    exit_code = 69


class OutputError(NsyswrapError):
    """The output already exists, or cannot be written."""

    exit_code = 73


class PlanError(NsyswrapError):
    """A plan of a batch has an invalid key or value."""

    exit_code = 78


class NotExecutable(NsyswrapError):
    """The program exists but cannot be executed."""

    exit_code = 126


class ProgramNotFound(NsyswrapError):
    """The program does not exist."""

    exit_code = 127


# What opening a capture raises: it is damaged, it needs an nsys, or its export cannot be stored.
UNREADABLE = (CaptureError, Unavailable, OutputError)


class UnreadCapture(NamedTuple):
    """A capture that cannot be read, by its label and its path, with the reason and what to do.

    ``exit_code`` is that of the reason: 65 for a damaged capture, 69 if an nsys is missing, 0 for a run that
    is left out because it is not done.
    """

    label: str
    path: str
    reason: str
    hint: str = ""
    exit_code: int = CaptureError.exit_code

    @property
    def text(self) -> str:
        """The reason, with the path of the capture."""
        return self.reason if self.path in self.reason else f"{self.path}: {self.reason}"

    @property
    def named(self) -> str:
        """The label and the reason."""
        return f"{self.label}: {self.reason}"


def not_read(label: str, path: Path, error: NsyswrapError) -> UnreadCapture:
    """Return the capture that raised an error."""
    return UnreadCapture(label, str(path), error.message, error.hint, error.exit_code)


def exit_code_of(captures: Iterable[UnreadCapture]) -> int:
    """Return 0 if all captures can be read, the code that all reasons have in common, or else 65."""
    codes = {capture.exit_code for capture in captures} - {0}
    if len(codes) > 1:
        return CaptureError.exit_code
    return codes.pop() if codes else 0


def nothing_read(captures: Iterable[UnreadCapture], message: str = "no capture can be read") -> NsyswrapError:
    """Return the error for captures of which none can be read; their reasons are printed before."""
    error = NotACapture(message, "the lines above name the reasons")
    error.exit_code = exit_code_of(captures) or error.exit_code
    return error
