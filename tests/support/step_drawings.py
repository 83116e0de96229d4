"""Programs of steps of 10 us, drawn as calls, kernels and NVTX ranges, and the steps they have."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tiny_export import PID, Row, call, graph, kernel, memcpy, nvtx, opened

from nsyswrap.analysis.steps import Steps, steps_of

LENGTH = 10_000  # ns of a step
LAUNCH, GRAPH_LAUNCH, WAIT = "cudaLaunchKernel", "cudaGraphLaunch", "cudaStreamSynchronize"


class Drawing:
    """Rows of a program, written one call after another."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._number = 0

    def launch(self, name: str, start: int, *, tid: int = PID, api_ns: int = 5, gpu_ns: int = 20) -> None:
        begin = start + api_ns
        self._number += 1
        self.rows.append(call(LAUNCH, start, begin, self._number, tid=tid))
        self.rows.append(kernel(name, begin, begin + gpu_ns, self._number, streamId=tid))

    def queue(self, name: str, start: int, runs: tuple[int, int], *, stream: int = PID) -> None:
        """Launch a kernel that runs at a time of its own."""
        self._number += 1
        self.rows.append(call(LAUNCH, start, start + 5, self._number))
        self.rows.append(kernel(name, *runs, self._number, streamId=stream))

    def copy(self, start: int, gpu_ns: int) -> None:
        self._number += 1
        self.rows.append(call("cudaMemcpyAsync", start, start + 5, self._number))
        self.rows.append(memcpy(2, start + 5, start + 5 + gpu_ns, 1 << 20, correlationId=self._number))

    def replay(self, start: int) -> None:
        self._number += 1
        self.rows.append(call(GRAPH_LAUNCH, start, start + 5, self._number))
        self.rows.append(graph(start + 5, start + 50, self._number))

    def wait(self, start: int, end: int) -> None:
        self.rows.append(call(WAIT, start, end))

    def range(self, name: str, start: int, end: int, **more: object) -> None:
        self.rows.append(nvtx(name, start, end, **more))  # type: ignore[arg-type]

    def kernels(self, names: str, start: int, apart: int = 30, **more: int) -> None:
        """Launch kernels of one letter each."""
        for i, name in enumerate(names):
            self.launch(name, start + i * apart, **more)


def phases(train_ns: int, evaluate_ns: int) -> Drawing:
    """Three epochs of ten training steps and ten evaluation steps with kernels of such times."""
    drawing, now = Drawing(), 0
    for _ in range(3):
        for name, gpu_ns in (("train", train_ns), ("eval", evaluate_ns)):
            for _ in range(10):
                drawing.range(name, now, now + gpu_ns + 100)
                drawing.launch(name, now + 10, gpu_ns=gpu_ns)
                now += gpu_ns + 200
    return drawing


def only(folder: Path, drawing: Drawing, steps: str = "") -> Steps:
    """Return the steps of the only process."""
    [found] = steps_of(opened(folder, *drawing.rows).viewed(steps=steps))
    return found


def starts(steps: Steps) -> list[int]:
    return steps.start_ns.tolist()  # type: ignore[no-any-return]


def every(count: int, first: int = 0, length: int = LENGTH) -> list[int]:
    return [first + i * length for i in range(count)]


def numbers(marks: NDArray[Any]) -> list[int]:
    return np.flatnonzero(marks).tolist()


def training(steps: int, names: str = "abc") -> Drawing:
    """A range 'step' around the launches of each step, with 'forward' and 'layer' in it."""
    drawing = Drawing()
    for start in every(steps):
        drawing.range("step", start, start + 5000)
        drawing.range("forward", start + 50, start + 1000)
        for i in range(3):
            drawing.range("layer", start + 100 + 200 * i, start + 250 + 200 * i)
        drawing.kernels(names, start + 110, apart=200)
    return drawing
