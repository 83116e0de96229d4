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

from . import module_calls, notes, nvtx, steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


# Let PyTorch mark each function of a backward pass, with autograd's number of its forward operation.
#
# PyTorch writes these NVTX ranges itself, as its `emit_nvtx` does. In the first steps it also writes its
# operations with the shapes of their inputs. Later it does not: a step has twenty times as many of them. It
# also writes ranges of `record_function`, as around an optimizer's step. They are switched on for one
# thread and the backward passes that it begins. They stay on until the program ends: PyTorch warns if they
# are switched off inside of one, as around an optimizer's step, or never. Switching to others at once does
# no harm.

_START = ("_prepare_profiler", "_enable_profiler")  # of torch.autograd.profiler
_NO_NVTX = "without CUDA"
_FLAGS = (False,) * 4  # no memory, stacks, floating-point operations, modules
_MOST_CALLS = 16  # of outermost modules with shapes, where no step ends
_CALLS, _MOST_SHAPES = 2, 16  # of a module with new shapes after these, and so many different ones


def numbers() -> Callable[[], int]:
    """Return the function that tells the number of the next operation that autograd records in a thread."""
    numbering: Callable[[], int] = getattr(_autograd(), "_get_sequence_nr", int)  # PyTorch 2.0 lacks it
    return numbering


class BackwardRanges:
    """The ranges of the first thread that begins them. PyTorch must have been imported."""

    def __init__(self, shapes_end: Callable[[], None]) -> None:
        self._shapes_end = shapes_end
        self._on = self._with_shapes = False
        self._is_possible = True
        self._thread = 0
        self._calls: dict[tuple[Any, ...], int] = {}  # of an outermost module with inputs of these shapes
        self._last_step: int | None = None  # with shapes

    def begin(self, module: Any, inputs: Iterable[Any]) -> None:  # noqa: ANN401 - no types without torch
        """Switch the ranges on, with shapes or without; each call of an outermost module does so.

        While a profiler of the program runs in this thread, they stay off.
        """
        self._thread = self._thread or threading.get_ident()
        if not self._is_possible or self._thread != threading.get_ident():
            return
        shapes, had_shapes = self._wants_shapes(module, inputs), self._on and self._with_shapes
        if self._on and shapes == had_shapes:
            return
        if self._on:
            self._disable()
        elif _autograd()._profiler_type() != _profiler().ActiveProfilerType.NONE:  # noqa: SLF001
            return
        self._enable(shapes=shapes)
        if had_shapes:
            self._shapes_end()

    def _wants_shapes(self, module: Any, inputs: Iterable[Any]) -> bool:  # noqa: ANN401 - no types without torch
        """Return True in the first steps; where no step ends, for inputs of new shapes."""
        if self._last_step is None:  # the first step of all loads kernels and chooses them
            self._last_step = max(steps.current(), 1)
        if steps.current() > self._last_step:
            return False
        tensor = sys.modules["torch"].Tensor
        key = (id(module), *(str(value.shape) for value in inputs if isinstance(value, tensor)))
        count = self._calls.get(key, 0)
        if count or len(self._calls) < _MOST_SHAPES:
            self._calls[key] = count + 1
        return sum(self._calls.values()) <= _MOST_CALLS or (key in self._calls and count < _CALLS)

    def settle(self) -> None:
        """Switch from ranges with shapes to those without, in the thread that has them."""
        if self._on and self._with_shapes and self._thread == threading.get_ident():
            self._disable()
            self._enable(shapes=False)

    def _enable(self, *, shapes: bool) -> None:
        profiler = _profiler()
        scopes = {profiler.RecordScope.BACKWARD_FUNCTION, profiler.RecordScope.USER_SCOPE}
        if shapes or not hasattr(_autograd(), "_get_sequence_nr"):
            scopes = set()  # all of them: operations have the numbers
        config = (profiler.ProfilerState.NVTX, shapes, *_FLAGS, profiler._ExperimentalConfig())  # noqa: SLF001
        try:
            _autograd()._enable_profiler(profiler.ProfilerConfig(*config), set(), scopes)  # noqa: SLF001
        except RuntimeError as error:
            self._is_possible = False
            if _NO_NVTX not in str(error):
                raise
        else:
            self._on, self._with_shapes = True, shapes

    def end(self) -> None:
        """Switch them off, if they are on in this thread."""
        if self._on and self._thread == threading.get_ident():
            self._disable()

    def _disable(self) -> None:
        self._on = False
        _autograd()._disable_profiler()  # noqa: SLF001

    def give_way(self) -> None:
        """End them with the program, or where it starts a profiler of its own: PyTorch would refuse two."""
        atexit.register(notes.guarded(self.end))
        profiler: Any = sys.modules["torch.autograd.profiler"]
        for name in _START:
            if hasattr(profiler, name):
                setattr(profiler, name, self._ending(getattr(profiler, name)))

    def _ending(self, start: Callable[..., Any]) -> Callable[..., Any]:
        end = notes.guarded(self.end)

        @functools.wraps(start)
        def starting(*args: Any, **keywords: Any) -> Any:  # noqa: ANN401
            end()
            return start(*args, **keywords)

        return starting


def _autograd() -> Any:  # noqa: ANN401 - no types without torch
    return sys.modules["torch"]._C._autograd  # noqa: SLF001


def _profiler() -> Any:  # noqa: ANN401 - no types without torch
    return sys.modules["torch"]._C._profiler  # noqa: SLF001


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
        self._number = numbers()
        self._pushing: dict[int, nvtx.Numbered | None] = {}  # by id; None: below the depth
        self._alive: dict[int, weakref.ref[Any]] = {}
        self._thread = _Thread(self._domain)
        self._backward = BackwardRanges(functools.partial(self._domain.mark, SHAPES_END))
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
_begin = notes.guarded(BackwardRanges.begin)


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
