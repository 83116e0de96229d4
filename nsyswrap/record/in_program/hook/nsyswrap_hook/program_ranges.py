"""End steps at an NVTX range of the program, made by ``torch.cuda.nvtx`` or by the package ``nvtx``."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from . import imports, notes
from .occurrences import Occurrences, counting

if TYPE_CHECKING:
    from collections.abc import Callable

    from .steps import Steps

_PUSH, _POP = ("range_push", "push_range"), ("range_pop", "pop_range")  # of torch.cuda.nvtx, of nvtx
_START, _END = ("range_start", "start_range"), ("range_end", "end_range")


def at_range(text: str, make_steps: Callable[[], Steps]) -> None:
    """End a step with each range of this text."""
    for module in ("torch.cuda.nvtx", "nvtx"):
        imports.after_import(module, functools.partial(_watch, module, text, make_steps))


def _watch(module: str, text: str, make_steps: Callable[[], Steps]) -> None:
    steps = make_steps()
    holders = [holder for name in (module, f"{module}.nvtx") if (holder := sys.modules.get(name))]
    for holder in holders:
        _watch_stack(holder, Occurrences(steps), text)
        _watch_pairs(holder, steps, text)
    annotate = getattr(holders[0], "annotate", None)
    if annotate is not None:
        _watch_annotate(annotate, Occurrences(steps), text)
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


def _watch_stack(holder: object, occurrences: Occurrences, text: str) -> None:
    def pushed(_result: object, message: object = None) -> None:
        occurrences.push(message == text)

    def popped(_result: object) -> None:
        occurrences.pop()

    _after(holder, _PUSH, pushed, 1)
    _after(holder, _POP, popped, 0)


def _watch_pairs(holder: object, steps: Steps, text: str) -> None:
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


def _watch_annotate(annotate: Any, occurrences: Occurrences, text: str) -> None:  # noqa: ANN401 - a class
    construct, decorate = annotate.__init__, annotate.__call__

    def made(self: Any, message: str | None = None, *args: Any, **keywords: Any) -> None:  # noqa: ANN401
        construct(self, message, *args, **keywords)
        self.nsyswrap_text = message

    def decorating(self: Any, function: Any) -> Any:  # noqa: ANN401
        decorated = decorate(self, function)
        name = self.nsyswrap_text or getattr(function, "__name__", "")
        return counting(decorated, occurrences) if name == text else decorated

    annotate.__init__ = functools.wraps(construct)(made)
    annotate.__call__ = functools.wraps(decorate)(decorating)
    enter, leave = annotate.__enter__, annotate.__exit__
    push, pop = notes.guarded(occurrences.push), notes.guarded(occurrences.pop)

    def entering(self: Any) -> Any:  # noqa: ANN401
        result = enter(self)
        push(self.nsyswrap_text == text)
        return result

    def leaving(self: Any, *error: Any) -> Any:  # noqa: ANN401
        result = leave(self, *error)
        pop()
        return result

    annotate.__enter__, annotate.__exit__ = entering, leaving
