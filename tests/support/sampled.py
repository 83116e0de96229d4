"""Tests that run on many cases of one kind: the fast tier has some of the cases, the full tier all."""

from __future__ import annotations

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

    ``fast`` has those that the fast tier runs, or is their number: they are spread evenly. With several names
    a case is a tuple.
    """
    every = list(cases)
    if isinstance(fast, int):
        chosen = {index * len(every) // fast for index in range(fast)}
    else:
        chosen = {index for index, case in enumerate(every) if case in fast}
    assert chosen
    values = [(case,) if isinstance(names, str) else case for case in every]
    parameters = [
        pytest.param(*value, marks=() if index in chosen else pytest.mark.slow)  # type: ignore[misc]
        for index, value in enumerate(values)
    ]
    return pytest.mark.parametrize(names, parameters, ids=ids)
