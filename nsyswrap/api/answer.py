"""The answer about a capture as Python users and notebooks hold it."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from nsyswrap.analysis import answer as answers
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.capture.per_capture import per_capture

if TYPE_CHECKING:
    from nsyswrap.capture.capture import Capture
    from nsyswrap.reports.answer import AnswerLine

with lazy_imports():
    from nsyswrap.render import notebook
    from nsyswrap.render.formats import markdown
    from nsyswrap.reports import answer as wordings


class NotebookAnswer(answers.Answer):
    """The answer as data, which Python and a notebook show in the words of the screen."""

    _lines: Sequence[AnswerLine] = ()  # none of a copy

    @property
    def part(self) -> str:
        """Deprecated in 0.4.0: ``scope``."""
        warnings.warn("answer.part is now answer.scope", DeprecationWarning, stacklevel=2)
        return self.scope

    def __repr__(self) -> str:
        return notebook.answer_text(self._lines) if self._lines else super().__repr__()

    def _repr_html_(self) -> str | None:
        return notebook.answer_html(self._lines) if self._lines else None

    def _repr_markdown_(self) -> str | None:
        return markdown.answer_markdown("", self._lines) if self._lines else None


@per_capture
def answer_of(capture: Capture) -> NotebookAnswer:
    """Return the answer about a capture; raises NotInCapture."""
    made = answers.answer_of(capture)
    answer = NotebookAnswer(**{field.name: getattr(made, field.name) for field in fields(made)})
    command = shlex.join(["nsyswrap", "report", str(capture.source)])
    lines = wordings.with_command(wordings.answer_lines(capture, made), command)
    object.__setattr__(answer, "_lines", lines)  # it is frozen
    return answer
