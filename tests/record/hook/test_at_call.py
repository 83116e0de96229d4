"""``--step-at call:MODULE:FUNCTION``: what is counted, and what is noted where there is no such function."""

import importlib
import json
import sys
from collections.abc import Iterator
from contextlib import ContextDecorator, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import nsyswrap

HOOK = Path(nsyswrap.__file__).parent / "record" / "in_program" / "hook"
WORK = """
class Base:
    def step(self): return self
class Trainer(Base):
    @staticmethod
    def alone(): return 1
    @classmethod
    def made(cls): return cls
class Small(Trainer): pass
size = 3
def do_step(): return 2
"""


class Ends:
    """Counts the steps that ended."""

    count = 0

    def begin(self) -> None:
        pass

    def end(self) -> None:
        self.count += 1


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A module of the program, and the hook's own modules, in this process."""
    module: Any = ModuleType("work")
    exec(WORK, vars(module))  # noqa: S102
    monkeypatch.setitem(sys.modules, "work", module)
    monkeypatch.syspath_prepend(str(HOOK))
    monkeypatch.setenv("NSYSWRAP_HOOK_NOTES", str(tmp_path))
    yield module
    for name in [name for name in sys.modules if name.partition(".")[0] == "nsyswrap_hook"]:
        del sys.modules[name]


def at_call(place: str, folder: Path) -> tuple[Ends, dict[str, Any]]:
    """Count calls of a place of the module; return the counter and the notes."""
    ends = Ends()
    importlib.import_module("nsyswrap_hook.occurrences").at_call(f"work:{place}", lambda: ends)
    (path,) = folder.glob("*.json")
    return ends, json.loads(path.read_text())


@pytest.mark.parametrize("place", ["do_step", "Base.step", "Small.step", "Small.alone", "Small.made"])
def test_a_function_or_a_method_also_an_inherited_one(tmp_path: Path, work: Any, place: str) -> None:  # noqa: ANN401
    ends, facts = at_call(place, tmp_path)
    assert facts["place"] is True
    small = work.Small()
    assert (work.do_step(), small.step(), small.alone(), small.made()) == (2, small, 1, work.Small)
    assert work.Trainer.made() is work.Trainer  # what it inherits from is as it was
    assert ends.count == 1


@pytest.mark.parametrize(("error", "count"), [(KeyboardInterrupt, 0), (SystemExit, 0), (ValueError, 1)])
def test_a_call_that_ends_the_program_ends_no_step(
    tmp_path: Path,
    work: Any,  # noqa: ANN401
    error: type[BaseException],
    count: int,
) -> None:
    """A loop can catch other errors, and go on with the next step."""
    work.error = error
    exec("def fail(): raise error", vars(work))  # noqa: S102
    ends, _ = at_call("fail", tmp_path)
    with pytest.raises(error):
        work.fail()
    assert ends.count == count


class Stopped(KeyboardInterrupt):
    """As tools raise it in place of Python's own."""


@pytest.mark.parametrize(("error", "count"), [(Stopped, 0), (SystemExit, 0), (ValueError, 1)])
@pytest.mark.usefixtures("work")
def test_a_range_that_ends_the_program_ends_no_step(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException], count: int
) -> None:
    class Annotate(ContextDecorator, nullcontext[None]):
        def __init__(self, message: str) -> None:
            super().__init__()
            self.message = message

    ends, nvtx = Ends(), ModuleType("nvtx")
    monkeypatch.setattr(nvtx, "annotate", Annotate, raising=False)
    monkeypatch.setitem(sys.modules, "nvtx", nvtx)
    monkeypatch.setitem(sys.modules, "torch.cuda.nvtx", ModuleType("torch.cuda.nvtx"))
    importlib.import_module("nsyswrap_hook.occurrences").at_range("step", lambda: ends)
    with pytest.raises(error), Annotate("step"):
        raise error
    assert ends.count == count


@pytest.mark.parametrize(
    ("place", "absent"),
    [
        ("do_stp", ("work", "do_stp", ["Base", "Trainer", "Small", "do_step"])),
        ("Small.go", ("work.Small", "go", ["alone", "made", "step"])),
        ("Large.step", ("work", "Large", ["Base", "Trainer", "Small", "do_step"])),
        ("size", ("work", "size", None)),
    ],
)
@pytest.mark.usefixtures("work")
def test_what_is_not_there_is_noted_with_what_is(
    tmp_path: Path, place: str, absent: tuple[object, ...]
) -> None:
    facts = at_call(place, tmp_path)[1]
    assert facts["absent"] == dict(zip(("owner", "name", "names"), absent, strict=True))
    assert "failures" not in facts
