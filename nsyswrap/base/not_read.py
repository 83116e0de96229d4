"""What was asked for and cannot be read: it is named, the rest is shown, and the exit code tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nsyswrap.base.errors import CaptureError, NotACapture, NsyswrapError, OutputError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

# What opening a capture raises: it is damaged, it needs an nsys, or its export cannot be stored.
UNREADABLE = (CaptureError, Unavailable, OutputError)


@dataclass(frozen=True)
class UnreadCapture:
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
