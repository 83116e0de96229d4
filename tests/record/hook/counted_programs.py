"""Small programs on PyTorch, each in a forked process with the hook; prints what each marked, as JSON.

Run as ``python counted_programs.py HOOK``. Numbers in the marks are written by the program after its steps.
"""

import importlib
import json
import os
import sys
import types
from collections.abc import Callable
from typing import Any

sys.path.insert(0, sys.argv[1])
import nsyswrap_hook  # type: ignore[import-not-found]
import torch
from nsyswrap_hook import notes, nvtx

marks: list[str | int] = []


class Domain:
    """In place of a domain that nsys records."""

    def start(self, text: str) -> int:
        marks.append(f"+{text}")
        return len(marks)

    def end(self, number: int) -> None:
        marks.append(f"-{str(marks[number - 1])[1:]}")


def hook(steps: str, at: str = "") -> None:
    os.environ["NSYSWRAP_HOOK_STEPS"] = steps
    if at:
        os.environ["NSYSWRAP_HOOK_STEP_AT"] = at
    nvtx.domain = lambda _: Domain()
    nsyswrap_hook.activate()


def made(kind: Any = torch.optim.SGD) -> tuple[Any, Any]:  # noqa: ANN401
    model = torch.nn.Linear(2, 2)
    return model, kind(model.parameters(), lr=0.1)


def backward(model: Any, value: float = 1.0) -> None:  # noqa: ANN401
    model(torch.full((2,), value)).sum().backward()


def accumulation() -> None:
    hook("1-2")
    model, optimizer = made()
    for number in range(4):
        backward(model)
        backward(model)
        optimizer.step()
        marks.append(number)


def first_step() -> None:
    hook("0-0")
    model, optimizer = made()
    marks.append(-1)
    for number in range(2):
        backward(model)
        optimizer.step()
        marks.append(number)


def two_optimizers() -> None:
    hook("1-1")
    model, first = made()
    second = torch.optim.AdamW(model.parameters())
    for number in range(3):
        backward(model)
        first.step()
        marks.append(100 + number)
        second.step()
        marks.append(number)


def unhooked() -> None:
    """What the compiler of earlier versions does at its first use."""

    class Patcher:
        @staticmethod
        def patch() -> None:
            kinds: tuple[Any, ...] = (torch.optim.SGD, torch.optim.Adam)
            for kind in kinds:
                step = getattr(kind.step, "__wrapped__", kind.step)
                kind.step = step
                step.hooked = True

    module: Any = types.ModuleType("eval_frame")
    module.TorchPatcher = Patcher
    sys.modules["torch._dynamo.eval_frame"] = module
    hook("1-2")
    del sys.modules["torch._dynamo.eval_frame"]
    model, optimizer = made()
    for number in range(4):
        backward(model)
        optimizer.step()
        marks.append(number)
        if number == 0:
            Patcher.patch()


def closures() -> None:
    hook("0-1")
    model, optimizer = made(torch.optim.LBFGS)

    def closure() -> Any:  # noqa: ANN401
        loss = model(torch.ones(2)).sum()
        loss.backward()
        return loss

    for number in range(3):
        optimizer.step(closure)
        marks.append(number)


def scaler() -> None:
    hook("1-2")
    model, optimizer = made()
    scaling = torch.amp.GradScaler("cpu")
    for number in range(4):
        optimizer.zero_grad()
        value = float("inf") if number in (0, 2) else 1.0
        scaling.scale(model(torch.full((2,), value)).sum()).backward()
        scaling.step(optimizer)
        scaling.update()
        marks.append(number)


def graph() -> None:
    capturing: list[bool] = []

    class Graph:
        def capture_end(self) -> None:
            capturing.clear()

        def replay(self) -> None:
            marks.append("replay")

    cuda: Any = torch.cuda
    cuda.CUDAGraph = Graph
    cuda.is_initialized = lambda: bool(capturing)
    cuda.is_current_stream_capturing = lambda: True
    hook("1-2")
    model, optimizer = made()
    backward(model)
    optimizer.step()
    with_step, without = Graph(), Graph()
    capturing.append(True)
    optimizer.step()
    with_step.capture_end()
    without.capture_end()
    for number in range(2):
        without.replay()
        with_step.replay()
        marks.append(number)


def modules() -> None:
    hook("1-2", "module")
    inner = torch.nn.Linear(2, 2)
    model = torch.nn.Sequential(inner, torch.nn.ReLU())
    for number in range(4):
        loss = torch.nn.L1Loss()(model(torch.ones(2)), torch.ones(2))  # a loss is no model
        marks.append(number if loss.item() >= 0 else -1)


def failing_module() -> None:
    hook("1-1", "module")
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    for number in range(3):
        try:
            model(torch.ones(3 if number == 0 else 2))
        except RuntimeError:
            marks.append("failed")
        marks.append(number)


def worker() -> None:
    hook("1-1")
    model, optimizer = made()
    backward(model)
    optimizer.step()
    before = len(marks)
    if not os.fork():
        optimizer.step()
        os._exit(len(marks) - before)
    marks.append(os.waitstatus_to_exitcode(os.wait()[1]))
    optimizer.step()


def compiled() -> None:
    """The compiler does as much with the hook as without it, also for step 0."""
    if not os.fork():
        _train_compiled(hooked=True)
        os._exit(0)
    os.wait()
    _train_compiled(hooked=False)


def _train_compiled(*, hooked: bool) -> None:
    if hooked:
        hook("0-1")
    model, optimizer = made(torch.optim.Adam)

    def forward(value: Any) -> Any:  # noqa: ANN401
        return model(value) + 1

    for call in (torch.compile(model, backend="eager"), torch.compile(forward, backend="eager")):
        for _ in range(2):
            call(torch.ones(2)).sum().backward()
            optimizer.step()
    counters = torch._dynamo.utils.counters  # noqa: SLF001
    told = [{name: dict(own) for name, own in counters.items()}, len(marks)]
    print(json.dumps(["counters", told, {}]), flush=True)


# The first optimizer loads the compiler, in a second: after the hook in these, once before it for the others.
LOADS_COMPILER: tuple[Callable[[], None], ...] = (accumulation, unhooked)
CASES = (
    *LOADS_COMPILER,
    first_step,
    two_optimizers,
    closures,
    scaler,
    graph,
    modules,
    failing_module,
    worker,
)
torch.set_num_threads(1)
for case in [compiled] if "compiled" in sys.argv else CASES:
    sys.stdout.flush()
    if case not in (compiled, *LOADS_COMPILER):
        importlib.import_module("torch._dynamo")
    if not os.fork():
        case()
        facts = {name: notes._facts.get(name) for name in ("first", "last", "failures")}  # noqa: SLF001
        print(json.dumps([case.__name__, marks, facts]), flush=True)
        os._exit(0)
    os.wait()
