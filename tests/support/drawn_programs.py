"""Exports of small programs drawn by lot: steps, processes, devices, and all that makes a GPU wait."""

import random
from typing import NamedTuple

from tiny_export import Row, call, domain, global_id, graph, kernel, memcpy, memset, nvtx, row

LAUNCH = "cudaLaunchKernel_v7000"
KERNELS = ("k", "void gemm<float>(int)", "softmax_forward", "ncclDevKernel_AllReduce_Sum_f32_RING_LL()")
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize")
OTHERS = (
    "cudaMalloc",
    "cuModuleLoadData",
    "cudaEventRecord",
    "cudaFree",
    "overhead",
    "compile",
    "full queue",
)
LEAST_GAP_NS = 60  # before a step: longer than before any call in it


class _Step(NamedTuple):
    """What a process does in each of its steps: kinds of work, each with a device."""

    works: list[tuple[str, int]]
    ranges: bool


class Program:
    """Draws the rows of one export."""

    def __init__(self, dice: random.Random) -> None:
        self.rows: list[Row] = []
        self._dice, self._number = dice, 0
        for pid in dice.choice(((7,), (7,), (7, 8))):
            self._process(pid)

    def _process(self, pid: int) -> None:
        dice = self._dice
        kinds = [*KERNELS, "memcpy", "memset", "graph", "nodes"]
        devices = dice.choice(((0,), (0,), (0, 1)))
        works = [(dice.choice(kinds), dice.choice(devices)) for _ in range(dice.randrange(1, 5))]
        step = _Step(works, dice.random() < 0.5)
        now = dice.randrange(50)
        if dice.random() < 0.5:
            now = self._one_step(pid, _Step([("startup", 0), *works], ranges=False), now)
        for number in range(dice.choice((1, 2, 4, 7, 9))):
            now += LEAST_GAP_NS + dice.randrange(40)
            now += 3000 if dice.random() < 0.05 else 0
            more = [("checkpoint", 0)] if number and dice.random() < 0.1 else []
            now = self._one_step(pid, step._replace(works=[*works, *more]), now)
        if dice.random() < 0.3:
            self.rows.append(domain("library", 5, pid=pid))
            self.rows.append(nvtx("inside", 0, now, pid * 10, domainId=5))

    def _one_step(self, pid: int, step: _Step, now: int) -> int:
        dice, start = self._dice, now
        for kind, device in step.works:
            thread = pid * 10 + (dice.random() < 0.1)
            ends = self._work(kind, device, pid, thread, now)
            for _ in range(dice.choice((0, 0, 1, 2))):
                self._other(pid, thread, dice.randrange(start, ends + 30))
            now = ends + dice.randrange(4)
        if dice.random() < 0.3:
            self.rows.append(call(dice.choice(WAITS), now, now + 30, 0, pid=pid, tid=pid * 10))
            now += 30
        if step.ranges:
            thread = global_id(pid, pid * 10)
            self.rows.append(nvtx("step", start - 1, now, globalTid=thread))
            self.rows.append(nvtx("part", start, start + 2, globalTid=thread))
        return now

    def _work(self, kind: str, device: int, pid: int, thread: int, now: int) -> int:
        """Add the call and what it launched; return the end of the call."""
        dice = self._dice
        self._number += 1
        length = dice.randrange(20)
        place = {"deviceId": device, "globalPid": global_id(pid), "correlationId": self._number}
        place["streamId"] = dice.choice((7, 7, 8))
        start = now + dice.randrange(-2, 50)
        end = start + dice.choice((0, dice.randrange(1, 40)))
        names = {"memcpy": "cudaMemcpyAsync", "memset": "cudaMemset"}
        if kind in ("graph", "nodes"):
            names[kind] = "cudaGraphLaunch"
        if dice.random() < 0.95:
            name = names.get(kind, LAUNCH)
            self.rows.append(call(name, now, now + length, self._number, pid=pid, tid=thread))
            if name == LAUNCH and dice.random() < 0.3:  # the driver's call inside the runtime's
                inner = (now + length // 3, now + length // 2, self._number)
                self.rows.append(call("cuLaunchKernel", *inner, pid=pid, tid=thread))
        if kind == "memcpy":
            self.rows.append(memcpy(dice.choice((1, 2)), start, end, 8, **place))
        elif kind == "memset":
            self.rows.append(memset(start, end, 8, **place))
        elif kind == "graph":
            self.rows.append(graph(start, end, 0, **place))
        elif kind == "nodes":
            node = 3 << 32
            self.rows.append(kernel("k", start, end, **place, graphNodeId=node))
            self.rows.append(memcpy(8, end + 2, end + 9, 8, **place, graphNodeId=node + 1))
        else:
            self.rows.append(kernel(kind, start, end, **place))
        if dice.random() < 0.1:  # a migration of unified memory has no call and no stream
            moved = end + dice.randrange(30)
            apart = {**place, "correlationId": 0, "streamId": 0, "contextId": 0}
            self.rows.append(memcpy(dice.choice((11, 12)), moved, moved + dice.randrange(20), 4096, **apart))
        return now + length

    def _other(self, pid: int, thread: int, start: int) -> None:
        end, name = start + self._dice.randrange(25), self._dice.choice(OTHERS)
        cells = {"start": start, "end": end, "globalTid": global_id(pid, thread), "nameId": name}
        if name == "overhead":
            self.rows.append(row("PROFILER_OVERHEAD", **cells))
        elif name in ("compile", "full queue"):
            kind = 2 if name == "compile" else 8
            self.rows.append(row("CUPTI_ACTIVITY_KIND_OVERHEAD", **cells, overheadType=kind))
        else:
            self.rows.append(call(name, start, end, 0, pid=pid, tid=thread))
