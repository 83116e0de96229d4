"""A tiny training run with modules, as `profile --modules` records it: ranges, operations, kernels, by steps.

The backward runs on a thread of its own. A kernel starts 2 ns after its call returned, 10 ns after the call
began, so that what a kernel belongs to can be read off the calls.
"""

from tiny_export import PID, Row, call, domain, global_id, kernel, nvtx

from nsyswrap.capture.schema import NVTX_START_END

MAIN, ENGINE = PID, PID + 1  # threads
STEPS, MODULES = 1, 2  # domains
STEP_NS = 1000


class Training:
    """The rows so far, and the numbers of calls and of autograd's operations."""

    def __init__(self) -> None:
        self.rows: list[Row] = [domain("nsyswrap", STEPS), domain("nsyswrap.modules", MODULES)]
        self._correlation = self._operation = 0

    def launch(self, name: str, start: int, lasting: int, tid: int = MAIN) -> None:
        """Launch a kernel by a call at ``start``."""
        self._correlation += 1
        at = start + 10
        self.rows.append(call("cudaLaunchKernel", start, start + 8, self._correlation, tid=tid))
        self.rows.append(kernel(name, at, at + lasting, self._correlation))

    def range(self, text: str, start: int, end: int, tid: int = MAIN, number: int = 0) -> None:
        self.rows.append(nvtx(text, start, end, tid, domainId=number))

    def module(self, name: str, start: int, end: int, tid: int = MAIN) -> None:
        self.range(name, start, end, tid, MODULES)

    def operation(  # noqa: PLR0913 - what an operation is known by
        self,
        name: str,
        start: int,
        end: int,
        *,
        seq: int | None = None,
        tid: int = MAIN,
        sizes: str = "[[8, 4]]",
    ) -> None:
        self._operation += 1
        number = "" if seq is None else f", seq = {seq}"
        text = f"{name}{number}, op_id = {self._operation}, sizes = {sizes}, input_op_ids = [(1,0)]"
        self.range(text, start, end, tid)

    def backward(self, name: str, start: int, end: int, *, seq: int) -> None:
        """Autograd evaluates a function, which ends 30 ns before the engine is done with it."""
        self._operation += 1
        whole = f"autograd::engine::evaluate_function: {name}, op_id = {self._operation}"
        self.range(whole, start, end, ENGINE)
        self.operation(name, start + 1, end - 30, seq=seq, tid=ENGINE)

    def step(self, number: int, layers: int = 2, slower: int = 0) -> None:
        """One step: a forward with ``layers`` linear layers, their backward, an optimizer.

        Kernels of layer i take 10 * (i + 1) forward and 20 * (i + 1) backward, its bias 5, the embedding of
        the model itself 3, the optimizer 7. ``slower`` is added to the forward of the last layer.
        """
        at, seq = number * STEP_NS, number * layers
        marked = {"domainId": STEPS, "eventType": NVTX_START_END[0], "endGlobalTid": thread(MAIN)}
        self.rows.append(nvtx(f"step {number}", at, at + STEP_NS - 1, **marked))
        self.module("GPT", at + 5, at + 300)
        self.operation("aten::embedding", at + 10, at + 25)
        self.launch("embed", at + 12, 3)
        for i in range(layers):
            start, more = at + 50 + 100 * i, slower if i == layers - 1 else 0
            self.module(f"layers.{i}", start, start + 60)
            self.operation("aten::linear", start + 5, start + 50, seq=seq + i)
            self.operation("aten::addmm", start + 10, start + 40, seq=seq + i)
            self.launch("gemm", start + 12, 10 * (i + 1) + more)
        for i in reversed(range(layers)):
            start = at + 400 + 100 * (layers - i)
            self.backward("AddmmBackward0", start, start + 80, seq=seq + i)
            self.launch("gemm", start + 5, 20 * (i + 1), ENGINE)
            self.launch("bias", start + 65, 5, ENGINE)
        self.range("optimizer", at + 900, at + 950)
        self.launch("adam", at + 905, 7)


def training(steps: int = 2, layers: int = 2, slower: int = 0) -> list[Row]:
    """Return the rows of a program of so many equal steps."""
    made = Training()
    for number in range(steps):
        made.step(number, layers, slower)
    return made.rows


def thread(tid: int) -> int:
    return global_id(PID, tid)
