"""The ranges of modules between the begin and the end of what is recorded, without PyTorch and nsys."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import nsyswrap

HOOK = Path(nsyswrap.__file__).parent / "record" / "in_program" / "hook"


class Block:
    """A module of PyTorch with one child."""

    def __init__(self, **children: "Block") -> None:
        self.children = children

    def named_children(self) -> list[tuple[str, "Block"]]:
        return list(self.children.items())


class Domain:
    """A domain of NVTX that keeps the events in order."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def pushing(self, text: str) -> tuple[SimpleNamespace, Callable[[], None]]:
        return SimpleNamespace(), lambda: self.events.append(text)

    def marking(self, _text: str) -> None:
        """Leave out the mark before the end of a range."""

    def mark(self, text: str) -> None:
        self.events.append(text)

    def pop(self) -> None:
        self.events.append("pop")


def test_only_what_runs_between_begin_and_end_has_ranges(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    torch: Any = ModuleType("torch")
    torch._C = SimpleNamespace(_autograd=SimpleNamespace())  # noqa: SLF001
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.syspath_prepend(str(HOOK))
    monkeypatch.setenv("NSYSWRAP_HOOK_NOTES", str(tmp_path))
    hook = importlib.import_module("nsyswrap_hook.modules")
    domain = Domain()
    monkeypatch.setattr(hook.nvtx, "domain", lambda _: domain)
    monkeypatch.setattr(
        hook, "BackwardRanges", lambda _: SimpleNamespace(begin=int, give_way=int, settle=int)
    )
    marks = hook._Marks(1)  # noqa: SLF001
    calls: Callable[[Block], Any] = marks.make(
        lambda module: [calls(child) for child in module.children.values()]
    )
    model = Block(layer=Block(deep=Block()))
    for step in (lambda: None, marks.begin, marks.end, marks.begin, marks.end):
        step()
        calls(model)
    assert domain.events == ["Block", "layer", "pop", "pop"] * 2
