"""The label of a loop: the one name of its steps, in baselines, for ``--steps`` and on screens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from typing_extensions import Self

LoopKind = Literal["range", "work", "update"]


class LoopLabel(str):
    """The label of a loop, as text, with its kind and its name.

    It is ``'train'``, ``a sequence of 5 GPU operations``, ``one CUDA graph`` or ``optimizer step``. ``kind``:
    an NVTX range, GPU work, or the updates of an optimizer. ``name`` is without quotes and ``a sequence of``.
    """

    __slots__ = ("kind", "name")

    kind: LoopKind
    name: str

    def __new__(cls, text: str, kind: LoopKind = "work", name: str = "") -> Self:
        """Return a label; its name is the text if there is no other."""
        label = super().__new__(cls, text)
        label.kind, label.name = kind, name or text
        return label

    @classmethod
    def of_range(cls, name: str) -> Self:
        """Return the label of a range."""
        return cls(f"'{name}'", "range", name)

    @classmethod
    def of_sequence(cls, operations: int) -> Self:
        """Return the label of a sequence of so many GPU operations."""
        name = f"{operations:,} GPU operations"
        return cls(f"a sequence of {name}", "work", name)

    @property
    def short(self) -> str:
        """The label for a line with little room: a range in quotes, or the GPU operations."""
        return str(self) if self.kind == "range" else self.name


def is_range(label: str) -> bool:
    """Return True if a label, also one of a stored row, is that of a range: those alone are in quotes."""
    return label.startswith("'")
