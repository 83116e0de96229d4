"""Numbers and names of kernels in sentences, written by the unit at the end of their own name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nsyswrap.analysis.kernel_names.readable import readable
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import counted
from nsyswrap.base.units import Unit, duration, human, percent

Words = str | Callable[[Mapping[str, Any]], str]  # a text with names of numbers in braces, or what makes it
_PER_STEP = "per step"
_WHOLE = 99.5  # a larger count per step is written without decimals
_UNITS: Mapping[str, Callable[[Any], str]] = {
    "_ns": duration,
    "_bytes": lambda value: human(value, Unit.BYTES),
    "_bytes_per_s": lambda value: human(value, Unit.BYTES_PER_S),
    "_percent": percent,
    "kernel": readable,
}


@dataclass(frozen=True)
class _Number:
    name: str
    value: Any
    steps: int

    def __format__(self, spec: str) -> str:
        """Write the value by its unit, or as ``spec`` says: as a count per step, plain, or with its noun."""
        if spec == _PER_STEP:
            return self._per_step() if self.steps else f"{self.value:,}"
        if spec == "d":
            return f"{self.value}"
        if spec:
            return counted(self.value, spec)
        written = next((write for unit, write in _UNITS.items() if self.name.endswith(unit)), None)
        if written is not None:
            return written(self.value)
        return f"{self.value:,}" if isinstance(self.value, int) else f"{self.value}"

    def _per_step(self) -> str:
        """Return the count per step, or of all steps if most have none."""
        rate = self.value / self.steps
        if rate < 1:
            return f"{self.value:,} in {counted(self.steps, 'steps')}"
        return f"{rate:,.0f} {_PER_STEP}" if rate >= _WHOLE else f"{rate:.3g} {_PER_STEP}"


def in_words(words: Words, numbers: Mapping[str, Any]) -> str:
    """Return the words for some numbers."""
    return filled(words, numbers) if isinstance(words, str) else words(numbers)


def filled(text: str, numbers: Mapping[str, Any]) -> str:
    """Return a text with numbers in place of their names in braces.

    ``{idle_ns}`` is written as a duration, and so are other units; ``{longest_kernel}`` as its readable name.
    ``{gaps:per step}`` is a count divided by the ``steps`` of the numbers, if there are any; below 1 it reads
    ``2 in 19 steps``. ``{copies:copies}`` is a count with its noun, ``{pid:d}`` a number without separators.
    """
    steps = numbers.get("steps", 0)
    return text.format_map({name: _Number(name, value, steps) for name, value in numbers.items()})
