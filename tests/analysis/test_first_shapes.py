"""Steps in which `profile --modules` recorded operations and shapes, beside those without."""

from pathlib import Path

import pytest
from made_modules import ENGINE, MAIN, MODULES, STEPS, Training, thread
from report_tables import table_of, values_of
from tiny_export import nvtx, opened

from nsyswrap import CaptureReader
from nsyswrap.analysis.steps import steps_of
from nsyswrap.capture.schema import NVTX_MARK, NVTX_START_END

GEMM = "ampere_sgemm_128x64_tn"


def program(folder: Path, steps: int, with_shapes: int = 1) -> CaptureReader:
    """Steps of 1000 ns: a module, a loss outside of it, a backward, and an optimizer every other step."""
    made = Training()
    for number in range(steps):
        at, shapes = 1000 * number, number < with_shapes
        marked = {"domainId": STEPS, "eventType": NVTX_START_END[0], "endGlobalTid": thread(MAIN)}
        made.rows.append(nvtx(f"step {number}", at, at + 999, **marked))
        if number == with_shapes:
            made.rows.append(nvtx("shapes end", at + 2, None, domainId=MODULES, eventType=NVTX_MARK))
        made.module("Net", at + 5, at + 100)
        for name, begin, sizes in (("aten::mm", 10, "[[2, 3], [3, 5]]"), ("aten::add", 110, "[[2, 5], [5]]")):
            if shapes:
                made.operation(name, at + begin, at + begin + 50, seq=2 * number, sizes=sizes)
            made.launch(GEMM if name == "aten::mm" else "add", at + begin + 10, 20)
        sizes = ", sizes = [[2, 5]]" if shapes else ""
        made.range(f"AddmmBackward0, seq = {2 * number}, op_id = 9{sizes}", at + 300, at + 360, ENGINE)
        if shapes:
            made.operation("aten::mm", at + 310, at + 350, tid=ENGINE, sizes="[[3, 2], [2, 5]]")
        made.launch(GEMM, at + 320, 40, ENGINE)
        if number % 2:
            made.launch("adam", at + 500, 7)
    return opened(folder, *made.rows)


@pytest.mark.parametrize(("steps", "with_shapes", "warm_up"), [(4, 1, 1), (5, 2, 2), (4, 2, 1), (4, 0, 1)])
def test_they_are_warm_up_as_the_first_step_is_if_three_others_are_left(
    tmp_path: Path, steps: int, with_shapes: int, warm_up: int
) -> None:
    [found] = steps_of(program(tmp_path, steps, with_shapes))
    assert found.warm_up == warm_up
    assert found.steady.tolist() == [False] * warm_up + [True] * (steps - warm_up)


def test_operations_that_only_some_steps_have_are_no_rows(tmp_path: Path) -> None:
    rows = values_of(table_of(program(tmp_path, 4), "nvtx_tree"), "path", "total_ns", "forward_ns")
    assert rows == [("AddmmBackward0", 160, 0), ("Net", 80, 80), ("(no module or range)", 94, 0)]


def test_kernels_of_later_steps_have_the_operations_and_shapes_of_the_first(tmp_path: Path) -> None:
    table = table_of(program(tmp_path, 4), "module_kern_sum")
    # What is outside of modules is another sequence where the optimizer steps.
    assert sorted(values_of(table, "module", "operation", "shapes", "instances"), key=str) == [
        ("(no module or range)", "aten::add", "[[2, 5], [5]]", 2),
        ("(no module or range)", None, None, 2),
        ("(no module or range)", None, None, 2),
        ("AddmmBackward0", "AddmmBackward0", "[[2, 5]]", 2),
        ("AddmmBackward0", "AddmmBackward0", None, 2),
        ("Net", "aten::mm", "[[2, 3], [3, 5]]", 4),
    ]
