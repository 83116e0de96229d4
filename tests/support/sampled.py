"""Tests that run on many cases of one kind: the fast tier has some of the cases, the full tier all."""

from collections.abc import Callable, Container, Iterable
from typing import Any

import pytest


def sampled(
    names: str | tuple[str, ...],
    cases: Iterable[object],
    fast: int | Container[object],
    ids: Callable[[Any], str | None] | None = None,
) -> pytest.MarkDecorator:
    """Parametrize a test as ``pytest.mark.parametrize`` does; the cases that are not ``fast`` are slow.

    With several names a case is a tuple.
    """
    return pytest.mark.parametrize(names, sample(cases, fast, several=not isinstance(names, str)), ids=ids)


def sample(cases: Iterable[Any], fast: int | Container[object], *, several: bool = False) -> list[Any]:
    """Return the cases as parameters; those that are not ``fast`` are slow.

    ``fast`` has those that the fast tier runs, or is their number: they are spread evenly.
    """
    every = list(cases)
    if isinstance(fast, int):
        chosen = {index * len(every) // fast for index in range(fast)}
    else:
        chosen = {index for index, case in enumerate(every) if case in fast}
    assert chosen
    return [
        pytest.param(*(case if several else (case,)), marks=() if index in chosen else pytest.mark.slow)
        for index, case in enumerate(every)
    ]
