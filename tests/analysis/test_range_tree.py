"""The range tree: which node a GPU operation belongs to, where several forwards or none are possible."""

import random
from pathlib import Path

import numpy as np
from made_modules import ENGINE, MAIN, MODULES, Training, training
from tiny_export import PID, Row, call, changed, domain, global_id, kernel, nvtx, opened, row

from nsyswrap.analysis.range_tree import range_tree_of, tree_figures_of
from nsyswrap.analysis.range_tree.figures import autograd_outside
from nsyswrap.analysis.range_tree.tree import call_paths
from nsyswrap.api import CaptureReader
from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture

OTHER = PID + 2  # a second thread with forwards


def paths(folder: Path, *rows: Row) -> dict[str, int]:
    """GPU time of its own by path, of those with any."""
    figures = tree_figures_of(opened(folder, *rows))
    own = enumerate(figures.own_ns[:-1].tolist())
    return {"/".join(figures.tree.path(node)): ns for node, ns in own if ns}


def forward(  # noqa: PLR0913 - what a forward is known by
    made: Training, module: str, name: str, start: int, *, seq: int, tid: int = MAIN
) -> None:
    """A module with one operation of this number and a kernel of 1 ns."""
    made.module(module, start, start + 50, tid)
    made.operation(name, start + 5, start + 45, seq=seq, tid=tid)
    made.launch("k", start + 10, 1, tid)


def test_the_last_operation_with_a_number_recorded_it(tmp_path: Path) -> None:
    made = Training()
    made.operation("aten::to", 0, 20, seq=5)  # changes nothing, so the next operation has the number
    forward(made, "Head", "aten::mul", 100, seq=5)
    made.backward("MulBackward0", 500, 600, seq=5)
    made.launch("k", 505, 100, ENGINE)
    assert paths(tmp_path, *made.rows) == {"Head": 101}


def test_numbers_of_two_threads_are_told_apart_by_name(tmp_path: Path) -> None:
    made = Training()
    forward(made, "Head", "aten::mul", 0, seq=5)
    forward(made, "Tail", "aten::native_layer_norm", 100, seq=5, tid=OTHER)
    for at, name in ((500, "NativeLayerNorm"), (700, "Mul")):
        made.backward(f"{name}Backward0", at, at + 100, seq=5)
        made.launch("k", at + 5, at // 5, ENGINE)
    assert paths(tmp_path, *made.rows) == {"Head": 141, "Tail": 101}


def test_what_cannot_be_told_apart_belongs_to_neither(tmp_path: Path) -> None:
    made = Training()
    forward(made, "Head", "aten::mul", 0, seq=5)
    forward(made, "Tail", "aten::mul", 100, seq=5, tid=OTHER)
    made.backward("MulBackward0", 500, 600, seq=5)
    made.launch("k", 505, 100, ENGINE)
    assert paths(tmp_path, *made.rows) == {"Head": 1, "Tail": 1, "MulBackward0": 100}


def test_numbers_of_another_process_are_others(tmp_path: Path) -> None:
    made = Training()
    forward(made, "Head", "aten::mul", 0, seq=5)
    other = {"globalTid": global_id(PID + 10, 1)}
    rows = [
        *(nvtx("aten::mul, seq = 5", 100, 150, **other), nvtx("MulBackward0, seq = 5", 200, 300, **other)),
        call("launch", 210, 212, 77, pid=PID + 10, tid=1),
        kernel("k", 220, 320, 77, pid=PID + 10),
    ]
    assert paths(tmp_path, *made.rows, *rows) == {"Head": 1, "aten::mul": 100}


def test_replicas_of_a_module_are_one(tmp_path: Path) -> None:
    made = Training()
    forward(made, "Head", "aten::mul", 0, seq=5)
    forward(made, "Head", "aten::mul", 100, seq=5, tid=OTHER)
    made.backward("MulBackward0", 500, 600, seq=5)
    made.launch("k", 505, 100, ENGINE)
    assert paths(tmp_path, *made.rows) == {"Head": 102}


def test_a_forward_that_is_computed_again_in_the_backward(tmp_path: Path) -> None:
    """An activation checkpoint runs the module again on the backward's thread, and the backward of that."""
    made = Training()
    made.module("GPT", 0, 300)
    made.operation("CheckpointFunction", 10, 200, seq=7)
    made.module("layers.3", 20, 190)
    made.launch("first", 30, 1)
    made.range(
        "autograd::engine::evaluate_function: CheckpointFunctionBackward, op_id = 90", 1000, 2000, ENGINE
    )
    made.operation("CheckpointFunctionBackward", 1001, 1990, seq=7, tid=ENGINE)
    made.module("layers.3", 1100, 1300, ENGINE)
    made.operation("aten::mul", 1110, 1290, seq=0, tid=ENGINE)
    made.launch("again", 1120, 10, ENGINE)
    made.backward("MulBackward0", 1400, 1500, seq=0)
    made.launch("inner", 1405, 100, ENGINE)
    capture = opened(tmp_path, *made.rows)
    figures = tree_figures_of(capture)
    of_path = {figures.tree.path(node): node for node in range(len(figures.tree.names))}
    layer = of_path["GPT", "layers.3"]
    assert figures.total_ns[[of_path[("GPT",)], layer]].tolist() == [111, 111]
    assert figures.backward_ns[[of_path[("GPT",)], layer]].tolist() == [110, 110]
    assert figures.own_ns.sum() == figures.own_ns[layer] == 111
    assert figures.tree.module[layer] == "layers.3"


def test_a_module_that_is_computed_again_inside_of_an_operations_backward(tmp_path: Path) -> None:
    """A checkpoint without reentry: the first backward of an operation inside runs the module again."""
    made = Training()
    made.module("GPT", 0, 300)
    made.module("layers.3", 20, 190)
    forward(made, "layers.3.mlp", "aten::mul", 50, seq=4)
    made.range("autograd::engine::evaluate_function: MulBackward0, op_id = 90", 1000, 2000, ENGINE)
    made.operation("MulBackward0", 1001, 1990, seq=4, tid=ENGINE)
    made.module("layers.3", 1100, 1300, ENGINE)
    made.launch("again", 1120, 10, ENGINE)
    made.module("layers.3.mlp", 1150, 1290, ENGINE)
    made.launch("again", 1160, 20, ENGINE)
    made.launch("k", 1500, 100, ENGINE)
    assert paths(tmp_path, *made.rows) == {"GPT/layers.3": 10, "GPT/layers.3/mlp": 121}


def test_a_module_that_is_computed_again_without_operations(tmp_path: Path) -> None:
    made = Training()
    made.module("layers.3", 0, 100, ENGINE)  # of the step before
    made.launch("again", 10, 10, ENGINE)
    made.module("GPT", 200, 500)
    made.module("layers.3", 220, 390)
    made.launch("k", 230, 1)
    assert paths(tmp_path, *made.rows) == {"GPT/layers.3": 11}


def test_two_models_with_modules_of_one_name(tmp_path: Path) -> None:
    made = Training()
    for at, model in ((0, "Actor"), (1000, "Critic")):
        made.module(model, at, at + 500)
        made.module("head", at + 20, at + 190)
        made.launch("k", at + 30, 1)
    made.module("head", 3000, 3100, ENGINE)
    made.launch("k", 3010, 7, ENGINE)
    assert paths(tmp_path, *made.rows) == {"Actor/head": 1, "Critic/head": 1, "head": 7}


def numbered(made: Training, *modules: tuple[str, int, int, int, int], tid: int = MAIN) -> None:
    """Modules by name, start, end, and autograd's next number at both, as the hook of today notes them."""
    for name, start, end, first, following in modules:
        made.range(name, start, end, tid, MODULES)
        made.rows[-1] = changed(made.rows[-1], uint64Value=first)
        mark = nvtx("next", end - 1, None, tid, eventType=34, domainId=MODULES, uint64Value=following)
        made.rows.append(mark)


def evaluated(made: Training, name: str, start: int, seq: int | None, tid: int = ENGINE) -> None:
    """A backward function of 50 ns, without operations; a kernel of 1 ns in it, another of 4 after it."""
    made.range(name if seq is None else f"{name}, seq = {seq}, op_id = {start}", start, start + 50, tid)
    made.launch("k", start + 10, 1, tid)
    made.launch("add", start + 60, 4, tid)


def test_numbers_of_modules_tell_whose_a_backward_is(tmp_path: Path) -> None:
    made = Training()
    numbered(made, ("GPT", 0, 400, 10, 20), ("layers.0", 50, 100, 12, 14), ("layers.1", 200, 300, 16, 18))
    numbered(made, ("GPT", 2000, 2400, 24, 30))
    of_number = {23: "SumBackward0", 19: "a", 17: "b", 16: "c", 15: "d", 13: "e", 12: "f", 10: "g"}
    for at, (seq, name) in enumerate(of_number.items()):
        evaluated(made, f"{name.upper()}Backward0" if len(name) == 1 else name, 1000 + 100 * at, seq)
    evaluated(made, "torch::autograd::AccumulateGrad", 1800, None)
    evaluated(made, "LastBackward0", 3000, 24)
    assert paths(tmp_path, *made.rows) == {
        "SumBackward0": 5,  # the loss is in no module
        "GPT": 3 * 5 + 1,  # after the last one nothing tells what it is of
        "GPT/layers.1": 10,
        "GPT/layers.0": 10,
        "torch::autograd::AccumulateGrad": 5,
    }
    tree = range_tree_of(Capture(tmp_path / "tiny.sqlite"))
    assert tree.unmatched == 0


def test_a_checkpoint_has_numbers_of_its_own_thread(tmp_path: Path) -> None:
    made = Training()
    numbered(made, ("GPT", 0, 400, 0, 20), ("layers.0", 50, 100, 2, 4), ("layers.1", 200, 300, 4, 5))
    made.range("CheckpointFunctionBackward, seq = 4, op_id = 1", 1000, 2000, ENGINE)
    numbered(made, ("layers.1", 1100, 1300, 2, 9), tid=ENGINE)
    evaluated(made, "ReluBackward0", 1400, 2)
    evaluated(made, "ReluBackward0", 2100, 3)  # of layers.0: it is in no other backward
    assert paths(tmp_path, *made.rows) == {"GPT/layers.1": 5, "GPT/layers.0": 1}


def test_threads_that_have_the_same_numbers(tmp_path: Path) -> None:
    made = Training()
    numbered(made, ("Actor", 0, 100, 0, 9))
    numbered(made, ("Critic", 0, 100, 4, 19), tid=OTHER)
    for at, seq in ((1000, 2), (1100, 15), (1200, 5)):
        evaluated(made, "MulBackward0", at, seq)
    assert paths(tmp_path, *made.rows) == {"Actor": 5, "Critic": 5, "MulBackward0": 1}


def test_numbers_between_those_of_two_threads_are_of_neither(tmp_path: Path) -> None:
    made = Training()
    numbered(made, ("Actor", 0, 100, 0, 9))
    numbered(made, ("Critic", 0, 100, 12, 19), tid=OTHER)
    evaluated(made, "MulBackward0", 1000, 10)
    assert range_tree_of(opened(tmp_path, *made.rows)).unmatched == 1


def test_a_module_inside_of_another_and_ranges_inside_of_it(tmp_path: Path) -> None:
    made = Training()
    made.range("outside", 0, 900)
    made.module("GPT", 10, 800)
    made.module("layers.0", 20, 700)
    made.module("layers.0.attention", 30, 600)
    made.range("softmax", 40, 500)
    made.operation("aten::softmax", 50, 400)
    made.launch("k", 60, 1)
    made.launch("k", 650, 2)
    made.launch("k", 850, 4)
    assert paths(tmp_path, *made.rows) == {
        "GPT/layers.0/attention/softmax": 1,
        "GPT/layers.0": 2,
        "outside": 4,
    }


def test_random_ranges_hold_what_they_hold_when_looked_at_one_by_one(tmp_path: Path) -> None:
    chance = random.Random(25)  # noqa: S311 - the same ranges each time
    edges: list[tuple[int, int, str]] = []

    def split(start: int, end: int, depth: int) -> None:
        while depth and start < end - 40:
            start += chance.randrange(1, 20)
            stop = min(start + chance.randrange(20, 400), end - 1)
            edges.append((start, stop, chance.choice("abc")))
            split(start, stop, depth - 1)
            start = stop

    split(0, 20_000, 4)
    launches = [(at, chance.randrange(1, 50)) for at in sorted(chance.sample(range(0, 20_000, 7), 500))]
    rows = [nvtx(name, start, end) for start, end, name in edges]
    for i, (at, lasting) in enumerate(launches):
        rows += [call("launch", at, at + 1, i + 1), kernel("k", at + 100_000, at + 100_000 + lasting, i + 1)]
    expected: dict[str, int] = {}
    for at, lasting in launches:
        around = [edge for edge in edges if edge[0] <= at and at + 1 <= edge[1]]
        if around:
            path = "/".join(name for *_, name in sorted(around, key=lambda edge: (edge[0], -edge[1])))
            expected[path] = expected.get(path, 0) + lasting
    chance.shuffle(rows)
    capture = opened(tmp_path, *rows)
    figures = tree_figures_of(capture)
    own = {"/".join(figures.tree.path(i)): int(figures.own_ns[i]) for i in range(len(figures.tree.names))}
    assert {path: ns for path, ns in own.items() if ns} == expected
    assert figures.whole_ns == sum(lasting for _, lasting in launches)
    tree = range_tree_of(capture.whole)
    for node in range(len(tree.names)):
        children = figures.total_ns[:-1][tree.parent == node].sum()
        some = np.arange(len(tree.names) + 1) % 2 == 0
        expected_children = np.flatnonzero((tree.parent == node) & some[:-1])
        assert sorted(figures.children(node, some)) == expected_children.tolist()
        assert figures.total_ns[node] == figures.own_ns[node] + children


def test_time_of_autograd_outside_of_ranges(tmp_path: Path) -> None:
    """Those of 5, 7 and 1 ns of two threads of autograd count; 3 ns in a range and 2 ns of another do not."""
    made = Training()
    made.rows += [
        row("ThreadNames", nameId=f"pt_autograd_{i}", priority=20, globalTid=global_id(PID, ENGINE + i))
        for i in (0, 1)
    ]
    made.range("backward", 0, 100, ENGINE)
    made.launch("k", 10, 3, ENGINE)
    made.launch("k", 200, 5, ENGINE)
    made.launch("k", 300, 7, ENGINE + 1)
    made.launch("k", 400, 2)
    made.launch("m", 500, 1, ENGINE)
    assert autograd_outside(opened(tmp_path, *made.rows)) == {"k": 12, "m": 1}


def paths_of(capture: CaptureReader) -> list[str | None]:
    """The path of each call, then that of no call."""
    calls = np.append(np.arange(capture.whole.count("api")), -1)
    numbers, paths = call_paths(capture.whole, calls)
    return [None if number == MISSING else paths[number] for number in numbers.tolist()]


def test_names_from_the_outermost_range_on(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(domain("mine", 2), domain("GIL Trace", 3)),
        *(nvtx("step", 0, 100), nvtx("part", 10, 50, domainId=2), nvtx("Holding GIL", 15, 45, domainId=3)),
        *(call("launch", 20, 25, 1), kernel("k", 30, 40, 1)),
        *(call("launch", 60, 65, 2), call("launch", 200, 205, 3)),
    )
    assert paths_of(capture) == ["step/mine:part", "step", None, None]


def test_operations_of_pytorch_are_named_without_numbers_and_sizes(tmp_path: Path) -> None:
    texts = (
        "aten::linear, seq = 3, op_id = 4, sizes = [[2, 2]]",
        "aten::mm, op_id = 5, sizes = [[2, 2], [2]]",
    )
    ranges = (nvtx(text, i, 100 - i) for i, text in enumerate(("step, 1", *texts)))
    capture = opened(tmp_path, *ranges, call("launch", 20, 25, 1), kernel("k", 30, 40, 1))
    assert paths_of(capture) == ["step, 1/aten::linear/aten::mm", None]


def test_modules_are_paths_in_the_tree_also_of_a_backward(tmp_path: Path) -> None:
    capture = opened(tmp_path, *training(steps=1))
    assert paths_of(capture) == [
        *("GPT", "GPT/layers.0", "GPT/layers.1"),
        *("GPT/layers.1", "GPT/layers.1", "GPT/layers.0", "GPT/layers.0"),
        *("optimizer", None),
    ]
