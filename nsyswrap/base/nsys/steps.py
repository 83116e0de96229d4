"""Which steps of a program are recorded: the values of ``--steps`` and ``--step-at``."""

from __future__ import annotations

import re

from nsyswrap.base.errors import UsageError

DOMAIN = "nsyswrap"  # NVTX domain of the steps that the hook in the program marks
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_PLACE = re.compile(r"module|nvtx:.+|call:[\w.]+:[\w.]+", re.DOTALL)


def parse_steps(text: str) -> tuple[int, int]:
    """Return the first and the last step of ``10-13`` or ``10``. Raises UsageError."""
    match = _RANGE.fullmatch(text.strip())
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if last < first:
        raise UsageError(
            f"invalid --steps {text!r}: expected steps, for example 10-13",
            "steps are numbered from 0; 10-13 is four steps",
        )
    return first, last


def check_place(text: str) -> None:
    """Raise UsageError unless ``text`` says what ends a step."""
    if not _PLACE.fullmatch(text):
        raise UsageError(
            f"invalid --step-at {text!r}",
            "use module, nvtx:NAME or call:package.module:function; without it optimizers end the steps",
        )
    if text.startswith("call:__main__:"):
        raise UsageError(
            f"invalid --step-at {text!r}: it cannot name a function of the script itself",
            "move the function into a module that the script imports, or use nvtx:NAME or module",
        )


def range_name(steps: str) -> str:
    """Return the NVTX range around the recorded steps, as nsys takes it."""
    first, last = parse_steps(steps)
    return f"steps {first}-{last}@{DOMAIN}"
