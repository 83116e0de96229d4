"""Keep what was computed from a capture for as long as the capture exists."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from nsyswrap.capture.capture import Capture

P = ParamSpec("P")
R = TypeVar("R")
_RESULTS: dict[Callable[..., Any], WeakKeyDictionary[Capture, Any]] = {}  # of each function


def forget(capture: Capture, *, but: Callable[..., object] | None = None) -> None:
    """Free what was selected and computed for this view of a capture, until it is asked for again.

    What the function ``but`` returned is kept.
    """
    capture.forget_selected()
    for function, results in _RESULTS.items():
        if function is not but:
            results.pop(capture, None)


def discard(capture: Capture, function: Callable[..., object], *arguments: Hashable) -> None:
    """Free what a function computed for this view of a capture, until it is asked for again.

    With further ``arguments``, all that it takes, only what it computed of these is freed.
    """
    of_capture = _RESULTS[function].get(capture, {})
    if arguments:
        of_capture.pop(arguments, None)
    else:
        of_capture.clear()


def per_capture(
    compute: Callable[Concatenate[Capture, P], R],
) -> Callable[Concatenate[Capture, P], R]:
    """Compute a function of a capture once for each capture and each set of further arguments.

    The further arguments have to be hashable. An argument that is left out counts as its default. Every view
    of a capture counts as a capture of its own. The captures are referred to weakly, so a result must not
    refer to its capture. An exception is not kept.
    """
    results: WeakKeyDictionary[Capture, dict[Hashable, R]] = WeakKeyDictionary()
    signature = inspect.signature(compute)

    @wraps(compute)
    def computed_once(capture: Capture, /, *arguments: P.args, **options: P.kwargs) -> R:
        of_capture = results.setdefault(capture, {})
        bound = signature.bind(capture, *arguments, **options)
        bound.apply_defaults()
        key = tuple(bound.arguments.values())[1:]
        if key not in of_capture:
            with capture.exact():
                of_capture[key] = compute(capture, *arguments, **options)
        return of_capture[key]

    _RESULTS[computed_once] = results
    return computed_once
