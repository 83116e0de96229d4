"""What is called before the first forward of a module, also under a compiler."""

import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import nsyswrap

HOOK = Path(nsyswrap.__file__).parent / "record" / "in_program" / "hook"


class Module:
    """A module of PyTorch whose forward adds one."""

    def __call__(self, number: int) -> int:
        return number + 1


def test_an_action_comes_once_before_the_first_forward_that_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiling, called = [True], list[str]()
    torch: Any = ModuleType("torch")
    torch.nn = SimpleNamespace(Module=type("Own", (Module,), {"__call__": Module.__call__}))
    torch.compiler = SimpleNamespace(is_compiling=lambda: compiling[0])
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.syspath_prepend(str(HOOK))
    monkeypatch.setenv("NSYSWRAP_HOOK_NOTES", str(tmp_path))
    try:
        hook = importlib.import_module("nsyswrap_hook.module_calls")
        hook.before_first_forward(lambda: called.append("action"))
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "nsyswrap_hook"]:
            del sys.modules[name]
    module = torch.nn.Module()
    assert (module(1), called) == (2, [])  # the compiler reads the code, and nothing runs
    compiling[0] = False
    assert [module(number) for number in (1, 2, 3)] == [2, 3, 4]
    assert called == ["action"]
