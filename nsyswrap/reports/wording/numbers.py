"""Numbers in sentences, written by the unit at the end of their name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nsyswrap.base.text import counted
from nsyswrap.base.units import Unit, duration, human, percent

_PER_STEP = "per step"
_UNITS: Mapping[str, Callable[[Any], str]] = {
    "_ns": duration,
    "_bytes": lambda value: human(value, Unit.BYTES),
    "_bytes_per_s": lambda value: human(value, Unit.BYTES_PER_S),
    "_percent": percent,
}


@dataclass(frozen=True)
class _Number:
    name: str
    value: Any
    steps: int

    def __format__(self, spec: str) -> str:
        """Write the value by its unit, or as ``spec`` says: as a count per step, or with its noun."""
        if spec == _PER_STEP:
            return f"{self.value / self.steps:,.3g} {spec}" if self.steps else f"{self.value:,}"
        if spec:
            return counted(self.value, spec)
        written = next((write for unit, write in _UNITS.items() if self.name.endswith(unit)), None)
        if written is not None:
            return written(self.value)
        return f"{self.value:,}" if isinstance(self.value, int) else f"{self.value}"


def filled(text: str, numbers: Mapping[str, Any]) -> str:
    """Return a text with numbers in place of their names in braces.

    ``{idle_ns}`` is written as a duration, and so are other units. ``{gaps:per step}`` is a count divided by
    the ``steps`` of the numbers, if there are any. ``{copies:copies}`` is a count with its noun.
    """
    steps = numbers.get("steps", 0)
    return text.format_map({name: _Number(name, value, steps) for name, value in numbers.items()})
