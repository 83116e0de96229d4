"""When a training step has ended, told from the order in which optimizers step."""

import gc
import importlib
import sys
from itertools import accumulate
from pathlib import Path
from typing import Protocol

import pytest

import nsyswrap


class Rounds(Protocol):
    """The class of the hook, which the type checker does not know."""

    def constructed(self, optimizer: object) -> None: ...
    def stepped(self, optimizer: object) -> int: ...


HOOK = Path(nsyswrap.__file__).parent / "record" / "in_program" / "hook"


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> Rounds:
    monkeypatch.syspath_prepend(str(HOOK))
    monkeypatch.delitem(sys.modules, "nsyswrap_hook", raising=False)
    rounds: Rounds = importlib.import_module("nsyswrap_hook.optimizers").IterationDetector()
    return rounds


class Optimizer:
    """One of the optimizers of a program, as far as the rounds are concerned."""


def counts(rounds: Rounds, order: str, constructed: str) -> list[int]:
    """Return the number of ended steps after each letter: an optimizer that steps."""
    own = {name: Optimizer() for name in sorted({*order, *constructed})}
    for name in constructed:
        rounds.constructed(own[name])
    return list(accumulate(rounds.stepped(own[name]) for name in order))


@pytest.mark.parametrize(
    ("order", "constructed", "ended"),
    [
        ("aaa", "a", [1, 2, 3]),
        ("aaa", "", [1, 2, 3]),  # made before the hook could see it
        ("ababab", "ab", [0, 1, 1, 2, 2, 3]),
        ("bababa", "ab", [0, 1, 1, 2, 2, 3]),
        ("aaa", "ab", [0, 2, 3]),  # b is never used: two steps are known to have ended by then
        ("abab", "abc", [0, 0, 1, 2]),
        ("aaababab", "a", [1, 2, 3, 3, 3, 4, 4, 5]),  # b joins, and is the last from then on
        ("aaabbbb", "a", [1, 2, 3, 3, 3, 6, 7]),  # b takes the place of a
        ("ababaaaaaa", "ab", [0, 1, 1, 2, 2, 2, 2, 6, 7, 8]),  # b is used no longer
        ("dddddgdddddgdddddg", "dg", [0, 2, 3, 4, 5, 5, 5, 5, 5, 5, 5, 6, 6, 6, 6, 6, 6, 7]),  # as in a GAN
    ],
)
def test_a_step_ends_with_the_last_optimizer(
    rounds: Rounds, order: str, constructed: str, ended: list[int]
) -> None:
    assert counts(rounds, order, constructed) == ended


def test_an_optimizer_that_was_deleted_is_not_waited_for(rounds: Rounds) -> None:
    a, b = Optimizer(), Optimizer()
    rounds.constructed(a)
    rounds.constructed(b)
    assert [rounds.stepped(a), rounds.stepped(b)] == [0, 1]
    del b
    gc.collect()
    assert [rounds.stepped(a), rounds.stepped(a)] == [1, 1]


def test_an_optimizer_for_each_parameter(rounds: Rounds) -> None:
    many = [Optimizer() for _ in range(3000)]
    for one in many:
        rounds.constructed(one)
    assert [sum(map(rounds.stepped, many)) for _ in range(3)] == [1, 1, 1]
