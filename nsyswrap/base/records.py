"""The decorator ``dataclass``, in a third of its time for frozen classes: a screen makes ninety of them."""

from __future__ import annotations

import dataclasses
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - so that others may import it from here

    from _typeshed import DataclassInstance
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> object:
        """Make a data class; frozen ones share their methods, where the original compiles six for each.

        That nobody assigns to their fields is held by the type checker alone.
        """
        if cls is None:
            return lambda cls: dataclass(cls, **options)
        if options.keys() - {"eq", "repr"} != {"frozen"}:
            return dataclasses.dataclass(cls, **options)
        methods = {"__eq__": _equal, "__hash__": _hash} if options.get("eq", True) else {}
        methods |= {"__repr__": _text} if options.get("repr", True) else {}
        for name in methods.keys() - vars(cls).keys():
            setattr(cls, name, methods[name])
        return dataclasses.dataclass(cls, eq=False, repr=False)


@cache
def _values(kind: type[DataclassInstance]) -> Callable[[object], Any]:
    """Return what gets the values that are compared from a record of this class, all at once."""
    names = [field.name for field in dataclasses.fields(kind) if field.compare]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda record: tuple(getattr(record, name) for name in names)


def _equal(self: DataclassInstance, other: object) -> bool:
    values = _values(self.__class__)
    return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: DataclassInstance) -> int:
    return hash(_values(self.__class__)(self))


def _text(self: DataclassInstance) -> str:
    names = [field.name for field in dataclasses.fields(self) if field.repr]
    return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"
