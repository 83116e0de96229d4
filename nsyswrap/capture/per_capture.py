"""Keep what was computed from a capture for as long as the capture exists."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from nsyswrap.capture.capture import Capture

P = ParamSpec("P")
R = TypeVar("R")


def per_capture(compute: Callable[Concatenate[Capture, P], R]) -> Callable[Concatenate[Capture, P], R]:
    """Compute a function of a capture once for each capture and each set of further arguments.

    The further arguments have to be hashable. An argument that is left out counts as its default. Every view
    of a capture counts as a capture of its own. The result is kept until the capture ends or is told to
    ``release`` it; it must not refer to its capture. An exception is not kept.
    """
    _, *parameters = inspect.signature(compute).parameters.values()
    defaults = tuple(parameter.default for parameter in parameters)
    names = tuple(parameter.name for parameter in parameters)

    @wraps(compute)
    def computed_once(capture: Capture, /, *arguments: P.args, **options: P.kwargs) -> R:
        results = capture.results.setdefault(computed_once, {})
        rest: tuple[Hashable, ...] = defaults[len(arguments) :]
        if options:
            rest = tuple(map(options.get, names[len(arguments) :], rest))
        key = (*arguments, *rest)
        if key not in results:
            try:
                results[key] = compute(capture, *arguments, **options)
            except OverflowError:
                with capture.exact():
                    raise
        return results[key]  # type: ignore[no-any-return]

    return computed_once


def known(capture: Capture, compute: Callable[[Capture], R]) -> R | None:
    """Return what such a function without further arguments computed of a capture; None if it did not yet."""
    result: R | None = capture.results.get(compute, {}).get(())
    return result
