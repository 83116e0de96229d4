"""Write NVTX ranges without any package: a client of the tool that records this process.

A tool such as nsys names its library in NVTX_INJECTION64_PATH. The library asks the client for a table of
pointers to functions, and writes its own functions there. Each NVTX client of a process has its own table.
Without a tool every call does nothing. What follows is declared as NVTX 3 does in nvtxTypes.h.
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Numbered = tuple["_Attributes", Callable[[], object]]  # set the payload of one, call the other

LIBRARY = "NVTX_INJECTION64_PATH"
_CALLBACKS = 1  # the export table with the function below
_MODULES, _DOMAINS = range(1, 7), 5  # all modules, which a tool asks for; the one with functions on domains
_SLOTS = 16  # most functions of a module, from 1
_MARK, _START, _END, _PUSH, _POP, _REGISTER, _CREATE = 1, 2, 3, 4, 5, 10, 12
_VERSION, _REGISTERED = 3, 3  # of NVTX; a message that is a registered string
_UNSIGNED = 1  # a payload of 64 bits

_Pointer, _Text = ctypes.c_void_p, ctypes.c_char_p
_ExportTable = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_uint32)
_Functions = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.POINTER(_Pointer), ctypes.POINTER(ctypes.c_uint)
)
# Marking, pushing and popping take less time than releasing Python's lock, and than to convert what are
# pointers already or an integer that nobody reads. The others may wait for the tool.
_PROTOTYPES = {
    _MARK: ctypes.PYFUNCTYPE(None),
    _START: ctypes.CFUNCTYPE(ctypes.c_uint64, _Pointer, _Pointer),
    _END: ctypes.CFUNCTYPE(None, _Pointer, ctypes.c_uint64),
    _PUSH: ctypes.PYFUNCTYPE(None),
    _POP: ctypes.PYFUNCTYPE(None),
    _REGISTER: ctypes.CFUNCTYPE(_Pointer, _Pointer, _Text),
    _CREATE: ctypes.CFUNCTYPE(_Pointer, _Text),
}


class _ExportedCallbacks(ctypes.Structure):
    _fields_ = (("size", ctypes.c_size_t), ("functions", _Functions))


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint16),
        ("size", ctypes.c_uint16),
        ("category", ctypes.c_uint32),
        ("color_type", ctypes.c_int32),
        ("color", ctypes.c_uint32),
        ("payload_type", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("payload", ctypes.c_uint64),
        ("message_type", ctypes.c_int32),
        ("message", _Pointer),
    )


class Domain:
    """An NVTX domain. Its texts are registered with the tool, and kept as long as the process lives."""

    def __init__(self, name: str) -> None:
        self._functions = _tool()
        self._handle = None
        self._registered: dict[str, int] = {}
        create = self._functions.get(_CREATE)
        if create and {_MARK, _START, _END, _PUSH, _POP, _REGISTER} <= self._functions.keys():
            self._handle = create(name.encode())
        self.pop: Callable[[], object] = lambda: None
        if self.recorded:
            self.pop = functools.partial(self._functions[_POP], _Pointer(self._handle))

    @property
    def recorded(self) -> bool:
        """True if a tool records this domain."""
        return self._handle is not None

    def pushing(self, text: str) -> Numbered | None:
        """Return an event that begins a range of this text on its thread; None if no tool records it.

        ``pop`` ends the range. Threads need an event each, as they share the memory of its number.
        """
        return self._numbered(_PUSH, text)

    def marking(self, text: str) -> Numbered | None:
        """Return an event that marks a moment with this text; None if no tool records it."""
        return self._numbered(_MARK, text)

    def mark(self, text: str) -> None:
        """Mark this moment with a text."""
        if self.recorded:
            event = self._event(text)
            self._functions[_MARK](_Pointer(self._handle), _Pointer(ctypes.addressof(event)))

    def start(self, text: str) -> int:
        """Begin a range that any thread may end; return its number."""
        if not self.recorded:
            return 0
        event = self._event(text)  # held while the tool reads it
        number: Any = self._functions[_START](self._handle, ctypes.addressof(event))
        return int(number)

    def end(self, number: int) -> None:
        """End the range with this number."""
        if self.recorded:
            self._functions[_END](self._handle, number)

    def _numbered(self, function: int, text: str) -> Numbered | None:
        if not self.recorded:
            return None
        event = self._event(text)
        event.payload_type = _UNSIGNED
        address = _Pointer(ctypes.addressof(event))
        return event, functools.partial(self._functions[function], _Pointer(self._handle), address)

    def _event(self, text: str) -> _Attributes:
        if text not in self._registered:
            self._registered[text] = self._functions[_REGISTER](self._handle, text.encode(errors="replace"))
        message = self._registered[text]
        event = _Attributes(version=_VERSION, message_type=_REGISTERED, message=message)
        event.size = ctypes.sizeof(event)
        return event


@functools.lru_cache(maxsize=None)
def domain(name: str) -> Domain:
    """Return the domain of this name."""
    return Domain(name)


@functools.lru_cache(maxsize=None)
def _tool() -> dict[int, Any]:
    """Return the functions of the tool by their number; empty without a tool."""
    path = os.environ.get(LIBRARY)
    if not path:
        return {}
    try:
        initialize = ctypes.CDLL(path).InitializeInjectionNvtx2
    except (OSError, AttributeError):
        return {}
    slots = {module: (_Pointer * _SLOTS)() for module in _MODULES}  # for the tool's functions
    tables = {module: _table(own) for module, own in slots.items()}

    def give_table(module: int, out_table: Any, out_size: Any) -> int:  # noqa: ANN401 - pointers of ctypes
        if module not in tables:
            return 0
        if out_table:
            out_table[0] = ctypes.addressof(tables[module])
        if out_size:
            out_size[0] = _SLOTS
        return 1

    callbacks = _ExportedCallbacks(functions=_Functions(give_table))
    callbacks.size = ctypes.sizeof(callbacks)

    def export_table(number: int) -> int:
        return ctypes.addressof(callbacks) if number == _CALLBACKS else 0

    exported = _ExportTable(export_table)
    _KEPT.extend((slots, tables, callbacks, exported))  # the tool may ask again
    if not initialize(exported):
        return {}
    given = slots[_DOMAINS]
    return {number: kind(at) for number, kind in _PROTOTYPES.items() if (at := given[number])}


def _table(slots: Any) -> Any:  # noqa: ANN401 - arrays of ctypes
    """Return pointers to the slots, with zeros for the unused first one and after the last one."""
    table = (_Pointer * (_SLOTS + 1))()
    for number in range(1, _SLOTS):
        table[number] = ctypes.addressof(slots) + number * ctypes.sizeof(_Pointer)
    return table


_KEPT: list[Any] = []
