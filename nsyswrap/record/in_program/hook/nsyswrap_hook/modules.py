"""Mark the forward of each PyTorch module with an NVTX range of its qualified name, down to a depth.

What calls a module is replaced at the import of torch. It does nothing outside the recorded part, and while
torch.compile compiles nothing that this could see.
Autograd numbers the operations of a thread that it records. The range of a module has the number of the next
one, and before its end a mark has that, if the module recorded any: so a backward knows whose it is.
"""

from __future__ import annotations

import atexit
import functools
import re
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

from . import backward, module_calls, notes, nvtx, steps

if TYPE_CHECKING:
    from collections.abc import Callable

DOMAIN = "nsyswrap.modules"
NEXT, SHAPES_END = "next", "shapes end"  # the texts of marks
# Classes that wrap one module, which has no name of its own then.
_WRAPPERS = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "DeepSpeedEngine": "module",
    "OptimizedModule": "_orig_mod",  # of torch.compile
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
}
# In the code that Inductor generated for torch.compile.
_OPERATIONS = re.compile(r"#.*Original ATen: \[(.*)\]")
_KERNEL = re.compile(r"(\w+) = async_compile\.triton\(|\s+(\w+)\.run\(")


def mark(depth: int) -> None:
    """Mark modules whose name has at most so many parts: ``layers.3.attention`` has three."""
    marks = _Marks(depth)
    module_calls.replace(marks.make)
    steps.when_open(marks.begin, marks.end)
    atexit.register(notes.guarded(marks.end))


class _Thread(threading.local):
    """What runs in this thread: the outermost module with a range, and the mark before the end of one."""

    def __init__(self, domain: nvtx.Domain) -> None:
        self.outermost: Any = None
        self.mark = domain.marking(NEXT)


class _Marks:
    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._domain = nvtx.domain(DOMAIN)
        self._on = False
        self._number = backward.numbers()
        self._pushing: dict[int, nvtx.Numbered | None] = {}  # by id; None: below the depth
        self._alive: dict[int, weakref.ref[Any]] = {}
        self._thread = _Thread(self._domain)
        self._backward = backward.BackwardRanges(functools.partial(self._domain.mark, SHAPES_END))
        notes.guarded(self._backward.give_way)()

    def begin(self) -> None:
        """Mark from here on."""
        self._on = True

    def end(self) -> None:
        """Mark no more. The ranges that are open end with their forward."""
        if self._on:
            self._on = False
            if self._thread.mark:  # what came after the last module
                event, write = self._thread.mark
                event.payload = self._number()
                write()
            notes.guarded(self._backward.settle)()
        _note_fused()  # the program may be ended now

    def make(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls a module by ``call``, with its range around it.

        It runs with each module of the program: what it reads is here, and it calls as little as it can. Two
        threads that call one module at the same moment can get each other's number.
        """
        is_compiling, number, thread = module_calls.is_compiling(), self._number, self._thread
        pushing, pop, autograd = self._pushing, self._domain.pop, self._backward

        def calling(module: Any, *args: Any, **keywords: Any) -> Any:  # noqa: ANN401 - of the forward
            if is_compiling() or not self._on:
                return call(module, *args, **keywords)
            key = id(module)
            if key not in pushing:
                _name(self, module)
            begin = pushing.get(key)
            if begin is None:
                return call(module, *args, **keywords)
            outermost = thread.outermost
            if outermost is None:
                thread.outermost = module
                _begin(autograd, module, (*args, *keywords.values()))
            event, write = begin
            first = event.payload = number()
            write()
            try:
                return call(module, *args, **keywords)
            finally:
                following, mark = number(), thread.mark
                if following != first and mark:
                    event, write = mark
                    event.payload = following
                    write()
                pop()
                if outermost is None:
                    thread.outermost = None

        return calling

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
_begin = notes.guarded(backward.BackwardRanges.begin)


def _class_name(module: Any) -> str:  # noqa: ANN401 - no types without torch
    """Return the class of a module, for a wrapper that of what it wraps."""
    wrapped = getattr(module, _WRAPPERS.get(type(module).__name__, ""), None)
    return type(module).__name__ if wrapped is None else _class_name(wrapped)


def _note_fused() -> None:
    """Note the operations of each kernel that torch.compile fused, if it compiled any in this process."""
    cache: Any = sys.modules.get("torch._inductor.codecache")
    kernels: dict[str, list[str]] = {}
    for module in list(getattr(getattr(cache, "PyCodeCache", None), "modules", ())):
        with open(module.__file__, encoding="utf-8") as file:
            kernels.update(operations(file.read()))
    if kernels:
        notes.add(fused=kernels)


def operations(code: str) -> dict[str, list[str]]:
    """Return the ATen operations of each kernel in generated code, which stand in a comment above it."""
    kernels: dict[str, list[str]] = {}
    above: list[str] = []
    for line in code.splitlines():
        comment = _OPERATIONS.search(line)
        if comment:
            above = [text.strip() for text in comment[1].split(",") if text.strip()]
        kernel = _KERNEL.match(line)
        if kernel and above:
            kernels.setdefault(kernel[1] or kernel[2], above)
            above = []
    return kernels
