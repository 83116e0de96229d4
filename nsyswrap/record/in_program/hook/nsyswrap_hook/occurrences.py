"""End steps at what the user names: the forward of a module, the call of a function, or an NVTX range.

The range is made by ``torch.cuda.nvtx`` or by the package ``nvtx``.

What is replaced in the program, and when:

- a module: the call of ``torch.nn.Module``, once torch is imported; only the outermost forward counts
- a function: the attribute of the module or class that holds it, right after that module has run, so that
  ``from module import function`` finds the replacement
- a range: push, pop, start and end of both packages, and four methods of ``nvtx.annotate``

Each of these calls the original with the same arguments, returns what it returns, and lets its errors
through; what fails here is noted (``notes.guarded``). Depth and pushed ranges are kept for each thread; a
range with start and end may end in another one.
"""

from __future__ import annotations

import functools
import sys
import threading
from typing import TYPE_CHECKING, Any

from . import imports, module_calls, notes

if TYPE_CHECKING:
    from collections.abc import Callable

    from .steps import StepRecorder

_MOST_NAMES = 1000  # of functions, to suggest one of them
_PUSH, _POP = ("range_push", "push_range"), ("range_pop", "pop_range")  # of torch.cuda.nvtx, of nvtx
_ENDING = (KeyboardInterrupt, SystemExit)  # a step that these end is not complete
_START, _END = ("range_start", "start_range"), ("range_end", "end_range")


class _Nested(threading.local):
    """How deep a thread is inside occurrences; what it has begun, with True for what counts."""

    def __init__(self) -> None:
        self.depth = 0
        self.pushed: list[bool] = []


class OccurrenceSteps:
    """Ends a step of ``steps`` with each outermost occurrence. The first one begins step 0."""

    def __init__(self, steps: StepRecorder) -> None:
        self._steps = steps
        self._nested = _Nested()

    def begin(self) -> None:
        """Begin an occurrence on this thread."""
        self._nested.depth += 1
        self._steps.begin()

    def end(self) -> None:
        """End the occurrence that was begun last on this thread."""
        self._nested.depth -= 1
        if not self._nested.depth:
            self._steps.end()

    def leave(self) -> None:
        """Leave the occurrence that was begun last on this thread: the program ends in its step."""
        self._nested.depth -= 1

    def push(self, counts: bool) -> None:  # noqa: FBT001 - what else
        """Begin something that ``counts`` or does not."""
        self._nested.pushed.append(counts)
        if counts:
            self.begin()

    def pop(self) -> None:
        """End what was begun last on this thread."""
        if self._nested.pushed and self._nested.pushed.pop():
            self.end()

    def drop(self) -> None:
        """Leave what was begun last on this thread, as ``leave`` does."""
        if self._nested.pushed and self._nested.pushed.pop():
            self.leave()


def at_forward(steps: StepRecorder) -> None:
    """End a step with each forward of a module that is called by no other and has parameters."""
    occurrences = OccurrenceSteps(steps)
    is_compiling = module_calls.is_compiling()
    push, pop = notes.guarded(occurrences.push), notes.guarded(occurrences.pop)
    drop = notes.guarded(occurrences.drop)
    is_model = notes.guarded(_is_model)

    def make(call: Callable[..., Any]) -> Callable[..., Any]:
        def calling(module: Any, *args: Any, **keywords: Any) -> Any:  # noqa: ANN401 - of the forward
            if is_compiling():
                return call(module, *args, **keywords)
            push(bool(is_model(module)))
            over = pop
            try:
                return call(module, *args, **keywords)
            except _ENDING:
                over = drop
                raise
            finally:
                over()

        return calling

    module_calls.replace(make)


def _is_model(module: Any) -> bool:  # noqa: ANN401 - no types without torch
    return next(module.parameters(), None) is not None


def at_call(function: str, make_steps: Callable[[], StepRecorder]) -> None:
    """End a step with each call of a function, named ``package.module:function``."""
    module, _, name = function.partition(":")

    def wrap() -> None:
        owner: Any = sys.modules[module]
        *path, last = name.split(".")
        for number, part in enumerate([*path, last], 1):
            if not hasattr(owner, part):
                _note_absent(owner, ".".join([module, *path[: number - 1]]), part)
                return
            owner, holder = getattr(owner, part), owner
        if not callable(owner):
            notes.add(absent={"owner": module, "name": name, "names": None})
            return
        raw, owner = _as_defined(holder, last), holder
        occurrences = OccurrenceSteps(make_steps())
        if isinstance(raw, (staticmethod, classmethod)):
            setattr(owner, last, type(raw)(counting(raw.__func__, occurrences)))
        else:
            setattr(owner, last, counting(raw, occurrences))
        notes.add(place=True)

    imports.after_import(module, wrap)


def _as_defined(holder: object, name: str) -> Any:  # noqa: ANN401 - a function or what makes a method of one
    """Return what the holder, or the class that it inherits from, has under this name."""
    for one in _with_bases(holder):
        if name in vars(one):
            return vars(one)[name]
    return getattr(holder, name)  # made by the module when it is asked for


def _with_bases(holder: object) -> tuple[object, ...]:
    return getattr(holder, "__mro__", (holder,))


def _note_absent(owner: object, owner_name: str, name: str) -> None:
    """Note that ``owner_name`` has nothing of this name, and which functions and classes it has."""
    known = [item for one in _with_bases(owner) for item in list(vars(one).items())]
    names = [
        one for one, value in known if one[:1] != "_" and (callable(value) or hasattr(value, "__func__"))
    ]
    notes.add(absent={"owner": owner_name, "name": name, "names": names[:_MOST_NAMES]})


def counting(function: Any, occurrences: OccurrenceSteps) -> Any:  # noqa: ANN401 - a function of the program
    """Return a function for use in place of ``function``: each call is an occurrence."""
    begin, end = notes.guarded(occurrences.begin), notes.guarded(occurrences.end)
    leave = notes.guarded(occurrences.leave)
    import inspect

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: Any, **keywords: Any) -> Any:  # noqa: ANN401
            begin()
            over = end
            try:
                return await function(*args, **keywords)
            except _ENDING:
                over = leave
                raise
            finally:
                over()

        return awaited

    @functools.wraps(function)
    def called(*args: Any, **keywords: Any) -> Any:  # noqa: ANN401
        begin()
        over = end
        try:
            return function(*args, **keywords)
        except _ENDING:
            over = leave
            raise
        finally:
            over()

    return called


def at_range(text: str, make_steps: Callable[[], StepRecorder]) -> None:
    """End a step with each range of this text."""
    for module in ("torch.cuda.nvtx", "nvtx"):
        imports.after_import(module, functools.partial(_watch, module, text, make_steps))


def _watch(module: str, text: str, make_steps: Callable[[], StepRecorder]) -> None:
    steps = make_steps()
    holders = [holder for name in (module, f"{module}.nvtx") if (holder := sys.modules.get(name))]
    for holder in holders:
        _watch_stack(holder, OccurrenceSteps(steps), text)
        _watch_pairs(holder, steps, text)
    annotate = getattr(holders[0], "annotate", None)
    if annotate is not None:
        _watch_annotate(annotate, OccurrenceSteps(steps), text)
    notes.add(place=True)


def _after(holder: Any, names: tuple[str, ...], act: Callable[..., None], arguments: int) -> None:  # noqa: ANN401 - a module
    """Call ``act`` after a function of ``holder``, with its result and its first arguments."""
    guarded = notes.guarded(act)
    for name in names:
        original = getattr(holder, name, None)
        if original is not None:
            setattr(holder, name, _followed(original, guarded, arguments))


def _followed(original: Any, act: Callable[..., None], arguments: int) -> Any:  # noqa: ANN401
    @functools.wraps(original)
    def call(*args: Any, **keywords: Any) -> Any:  # noqa: ANN401
        result = original(*args, **keywords)
        given = [*args, *keywords.values()]
        act(result, *given[:arguments])
        return result

    return call


def _watch_stack(holder: object, occurrences: OccurrenceSteps, text: str) -> None:
    def pushed(_result: object, message: object = None) -> None:
        occurrences.push(message == text)

    def popped(_result: object) -> None:
        occurrences.pop()

    _after(holder, _PUSH, pushed, 1)
    _after(holder, _POP, popped, 0)


def _watch_pairs(holder: object, steps: StepRecorder, text: str) -> None:
    open_ranges: list[object] = []

    def started(number: object, message: object = None) -> None:
        if message == text:
            open_ranges.append(number)
            steps.begin()

    def ended(_result: object, number: object = None) -> None:
        if number in open_ranges:
            open_ranges.remove(number)
            steps.end()

    _after(holder, _START, started, 1)
    _after(holder, _END, ended, 1)


def _watch_annotate(annotate: Any, occurrences: OccurrenceSteps, text: str) -> None:  # noqa: ANN401 - a class
    construct, decorate = annotate.__init__, annotate.__call__

    def constructing(self: Any, message: str | None = None, *args: Any, **keywords: Any) -> None:  # noqa: ANN401
        construct(self, message, *args, **keywords)
        self.nsyswrap_text = message

    def decorating(self: Any, function: Any) -> Any:  # noqa: ANN401
        decorated = decorate(self, function)
        name = self.nsyswrap_text or getattr(function, "__name__", "")
        return counting(decorated, occurrences) if name == text else decorated

    annotate.__init__ = functools.wraps(construct)(constructing)
    annotate.__call__ = functools.wraps(decorate)(decorating)
    enter, leave = annotate.__enter__, annotate.__exit__
    push, pop = notes.guarded(occurrences.push), notes.guarded(occurrences.pop)
    drop = notes.guarded(occurrences.drop)

    def entering(self: Any) -> Any:  # noqa: ANN401
        result = enter(self)
        push(self.nsyswrap_text == text)
        return result

    def leaving(self: Any, *error: Any) -> Any:  # noqa: ANN401
        result = leave(self, *error)
        (drop if any(isinstance(one, _ENDING) for one in error) else pop)()
        return result

    annotate.__enter__, annotate.__exit__ = entering, leaving
