"""When a training step has ended, told from the order in which optimizers step."""

import gc
import importlib
import sys
from itertools import accumulate
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Protocol

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


def test_an_optimizer_that_the_compiler_only_reads_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    compiling, hooks, ended = [False], list[Any](), list[int]()

    class Kind:
        """PyTorch's base class of optimizers."""

    graph = SimpleNamespace(capture_end=lambda _: None, replay=lambda _: None)
    torch: Any = ModuleType("torch")
    torch.compiler = SimpleNamespace(is_compiling=lambda: compiling[0])
    torch.cuda = SimpleNamespace(CUDAGraph=graph, is_initialized=lambda: False)
    own: Any = ModuleType("torch.optim.optimizer")
    own.Optimizer, own.register_optimizer_step_post_hook = Kind, hooks.append
    for name, module in (("torch", torch), ("torch.optim.optimizer", own)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.syspath_prepend(str(HOOK))
    optimizers = importlib.import_module("nsyswrap_hook.optimizers")
    monkeypatch.setattr(optimizers.imports, "after_import", lambda *_: None)
    optimizers.Optimizers(SimpleNamespace(end=ended.append)).watch()
    first, second = Kind(), Kind()
    compiling[0] = True
    read = Kind()
    hooks[0](read)
    compiling[0] = False
    for one in (first, second, first, second):
        hooks[0](one)
    assert ended == [0, 1, 0, 1]
