"""Mark the forward of each PyTorch module with an NVTX range of its qualified name, down to a depth.

The hooks are there from the import of torch on and do nothing outside the recorded part: hooks that come
later would make torch.compile compile again. While it compiles they do nothing that it could see.
Autograd numbers the operations of a thread that it records. The range of a module has the number of the next
one, and before its end a mark has that, if the module recorded any: so a backward knows whose it is.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from typing import TYPE_CHECKING, Any

from . import backward, forward_hooks, fused, notes, nvtx, recorded

if TYPE_CHECKING:
    from collections.abc import Callable

DOMAIN = "nsyswrap.modules"
NEXT = "next"  # the text of a mark
# Classes that wrap one module, which has no name of its own then.
_WRAPPERS = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "DeepSpeedEngine": "module",
    "OptimizedModule": "_orig_mod",  # of torch.compile
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
}


def mark(depth: int) -> None:
    """Mark modules whose name has at most so many parts: ``layers.3.attention`` has three."""
    marks = _Marks(depth)
    forward_hooks.add(marks.enter, marks.leave)
    recorded.when_open(marks.begin, marks.end)
    atexit.register(notes.guarded(marks.end))


class _Thread(threading.local):
    """The modules whose forward runs in this thread: the outermost, and the ids of those with a range.

    ``begun`` has the number of the next operation when each began. ``mark`` writes it.
    """

    def __init__(self, domain: nvtx.Domain) -> None:
        self.outermost: Any = None
        self.marked: list[int] = []
        self.begun: list[int] = []
        self.mark = domain.marking(NEXT)


class _Marks:
    def __init__(self, depth: int) -> None:
        self._is_compiling = forward_hooks.is_compiling()
        self._depth = depth
        self._domain = nvtx.domain(DOMAIN)
        self._on = False
        self._number = backward.numbers()
        self._pushing: dict[int, Callable[[int], object] | None] = {}  # by id; None: below the depth
        self._alive: dict[int, weakref.ref[Any]] = {}
        self._thread = _Thread(self._domain)
        self._backward = backward.Backward()
        notes.guarded(self._backward.give_way)()

    def begin(self) -> None:
        """Mark from here on."""
        self._on = True

    def end(self) -> None:
        """Mark no more. The ranges that are open end with their forward."""
        if self._on:
            self._on = False
            self._thread.mark(self._number())  # of what came after the last module
        fused.note()  # the program may be ended now

    def enter(self, module: Any, _inputs: object) -> None:  # noqa: ANN401 - no types without torch
        """Begin the range of ``module`` before its forward."""
        if self._is_compiling() or not self._on:
            return
        key = id(module)
        if key not in self._pushing:
            _name(self, module)
        pushing = self._pushing.get(key)
        if pushing:
            thread = self._thread
            if not thread.marked:
                thread.outermost = module
                if not self._backward.on:
                    _begin(self._backward)
            number = self._number()
            thread.marked.append(key)
            thread.begun.append(number)
            pushing(number)

    def leave(self, module: Any, _inputs: object, _output: object) -> None:  # noqa: ANN401 - no types without torch
        """End the range of ``module``, and those within it whose forward was left without their hook."""
        if self._is_compiling():
            return
        thread, key = self._thread, id(module)
        if key in thread.marked:
            ended, number = None, self._number()
            while ended != key:
                if thread.begun.pop() != number:
                    thread.mark(number)
                self._domain.pop()
                ended = thread.marked.pop()
            if not thread.marked:
                thread.outermost = None

    def name(self, module: Any) -> None:  # noqa: ANN401 - no types without torch
        """Find the name of ``module`` below the outermost one; on its own it is outermost."""
        outermost = self._thread.outermost
        if outermost is not None:
            self._name_below(outermost)
        if id(module) not in self._pushing:
            self._name_below(module)

    def _name_below(self, outermost: Any) -> None:  # noqa: ANN401 - no types without torch
        named: set[int] = set()
        waiting: list[tuple[Any, tuple[str, ...], bool]] = [(outermost, (), False)]
        while waiting:
            module, parts, is_wrapped = waiting.pop()
            key = id(module)
            if key in named:
                continue  # a module with two names
            named.add(key)
            is_marked = len(parts) <= self._depth and not is_wrapped  # its wrapper is
            text = ".".join(parts) or _class_name(module)
            self._pushing[key] = self._domain.pushing(text) if is_marked else None
            self._alive[key] = weakref.ref(module, self._forgetting(key))
            wrapped = _WRAPPERS.get(type(module).__name__)
            for name, child in reversed(list(module.named_children())):
                waiting.append((child, parts, True) if name == wrapped else (child, (*parts, name), False))

    def _forgetting(self, key: int) -> Callable[[object], None]:
        def forget(_module: object) -> None:
            self._pushing.pop(key, None)
            self._alive.pop(key, None)

        return forget


_name = notes.guarded(_Marks.name)
_begin = notes.guarded(backward.Backward.begin)


def _class_name(module: Any) -> str:  # noqa: ANN401 - no types without torch
    """Return the class of a module, for a wrapper that of what it wraps."""
    wrapped = getattr(module, _WRAPPERS.get(type(module).__name__, ""), None)
    return type(module).__name__ if wrapped is None else _class_name(wrapped)
