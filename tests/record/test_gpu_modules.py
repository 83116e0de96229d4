"""Steps and modules of training scripts without a line of ours, checked on a GPU against hand-made ranges."""

import json
import os
import re
import sqlite3
import statistics
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpus_here import DEVICES, ON_A_GPU
from ran import ran

from nsyswrap import open_capture
from nsyswrap.analysis.gpu_operations import KERNEL, KINDS, gpu_operations_of
from nsyswrap.analysis.range_texts import BACKWARD, FORWARD
from nsyswrap.analysis.range_tree import range_tree_of, tree_figures_of

ROOT = Path(__file__).resolve().parents[2]
GPT, IMAGES = (ROOT / "tests" / "record" / "programs" / f"train_{name}.py" for name in ("gpt", "images"))
STEPS = range(10, 14)
HAND_MADE = """
SELECT k.rowid, r.globalTid, r.start FROM CUPTI_ACTIVITY_KIND_KERNEL AS k
JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r ON r.correlationId = k.correlationId ORDER BY k.rowid
"""
RANGES = """
SELECT e.globalTid, e.start, e.end, coalesce(e.text, s.value) AS name
FROM NVTX_EVENTS AS e LEFT JOIN StringIds AS s ON s.id = e.textId
WHERE e.eventType IN (34, 59, 60) AND name LIKE ? ORDER BY e.start
"""
pytestmark = ON_A_GPU


def nsyswrap(*arguments: str | Path, launcher: tuple[str, ...] = ()) -> str:
    done = ran(
        [*launcher, sys.executable, "-m", "nsyswrap", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def recorded(run: Path, *program: str | Path, modules: str = "4") -> str:
    return nsyswrap("profile", "--no-stats", "-o", run, "--steps", "10-13", "--modules", modules, *program)


def losses(output: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"loss ([\d.]+)", output)]


def ranges(run: Path, like: str) -> list[tuple[int, int, int | None, str]]:
    with closing(sqlite3.connect(run / "report.sqlite")) as db:
        return db.execute(RANGES, (like,)).fetchall()


def hand_made(run: Path) -> dict[int, str]:
    """Return the name of the innermost hand-made range around each kernel's launch, by row of the kernel.

    For a launch on another thread: the last mark there before it, as in ``back layers.0.mlp.2``.
    """
    of_thread: dict[int, list[tuple[int, int, str]]] = {}
    for thread, start, end, name in ranges(run, "hand %"):
        if not name.startswith("hand step"):
            of_thread.setdefault(thread, []).append((start, end or 2**62, name.removeprefix("hand ")))
    with closing(sqlite3.connect(run / "report.sqlite")) as db:
        launches = db.execute(HAND_MADE).fetchall()
    found = {}
    for row, thread, start in launches:
        around = [name for begin, end, name in of_thread.get(thread, ()) if begin <= start < end]
        if around:
            found[row] = around[-1]
    return found


def modules_of(run: Path) -> dict[int, tuple[str, int]]:
    """Return the module and the phase of each kernel, by row."""
    capture = open_capture(run)
    tree, operations = range_tree_of(capture), gpu_operations_of(capture)
    kernels = np.flatnonzero(operations.kind == KINDS.index(KERNEL))
    nodes, phases = tree.node[kernels].tolist(), tree.phase[kernels].tolist()
    rows = (operations.row[kernels] + 1).tolist()
    named = [tree.module[node] if node >= 0 else "" for node in nodes]
    return dict(zip(rows, zip(named, phases, strict=True), strict=True))


def agree(run: Path) -> tuple[float, float]:
    """Return the shares of forward and backward kernels that belong to the module that was marked by hand.

    After the backward of a module comes that of what the modules around it compute themselves.
    """
    found = modules_of(run)
    right: dict[int, list[bool]] = {FORWARD: [], BACKWARD: []}
    for row, hand in hand_made(run).items():
        name, (module, phase) = hand.removeprefix("back "), found[row]
        is_backward = name != hand
        is_around = is_backward and (module == "GPT" or name.startswith(f"{module}."))
        wanted = BACKWARD if is_backward else FORWARD
        right[wanted].append(phase == wanted and (module == name or is_around))
    return statistics.mean(right[FORWARD]), statistics.mean(right[BACKWARD])


def steps_of(run: Path) -> dict[str, int]:
    """Return the kernels of each recorded step: those launched between its ends, on any thread."""
    capture = open_capture(run)
    operations = gpu_operations_of(capture)
    with closing(sqlite3.connect(run / "report.sqlite")) as db:
        launches = np.array([start for _, _, start in db.execute(HAND_MADE)])
    assert len(launches) == int((operations.kind == KINDS.index(KERNEL)).sum())
    return {
        name: int(((launches >= start) & (launches < (end or 2**62))).sum())
        for _, start, end, name in ranges(run, "step %")
    }


def sums_are_equal(run: Path) -> None:
    capture = open_capture(run)
    figures = tree_figures_of(capture)
    roots = figures.total_ns[:-1][figures.tree.parent == -1].sum() + figures.total_ns[-1]
    (table,) = json.loads(nsyswrap("report", run, "-r", "cuda_gpu_kern_sum", "--format", "json"))["reports"]
    assert roots == figures.whole_ns == sum(row["total_ns"] for row in table["rows"])


def test_a_gpt(tmp_path: Path) -> None:
    bare = ran([sys.executable, str(GPT)], check=True).stdout
    output = recorded(tmp_path / "run", GPT, "--ranges")
    assert losses(output) == pytest.approx(losses(bare), abs=2e-3)
    steps = steps_of(tmp_path / "run")
    assert list(steps) == [f"step {number}" for number in STEPS]
    assert len(set(steps.values())) == 1
    begun = [name for _, _, _, name in ranges(tmp_path / "run", "hand step %")]
    assert begun == [f"hand step {number}" for number in STEPS]
    forward, backward = agree(tmp_path / "run")
    kernels = len(modules_of(tmp_path / "run"))
    print(f"GPT: {kernels} kernels, {steps}, forward {forward:.2%}, backward {backward:.2%} right")
    assert sum(steps.values()) == kernels
    assert forward == 1
    assert backward > 0.98
    sums_are_equal(tmp_path / "run")


def test_an_image_model(tmp_path: Path) -> None:
    recorded(tmp_path / "run", IMAGES)
    steps = steps_of(tmp_path / "run")
    assert list(steps) == [f"step {number}" for number in STEPS]
    found = modules_of(tmp_path / "run")
    phases = [phase for name, phase in found.values() if name]
    print(f"images: {len(found)} kernels, {steps}, in modules {len(phases) / len(found):.2%}")
    assert phases.count(BACKWARD) > phases.count(FORWARD) > 0
    sums_are_equal(tmp_path / "run")


def test_a_compiled_gpt(tmp_path: Path) -> None:
    output = recorded(tmp_path / "run", GPT, "--compile")
    assert len(losses(output)) == 16
    assert list(steps_of(tmp_path / "run")) == [f"step {number}" for number in STEPS]
    found = modules_of(tmp_path / "run")
    inside = [name for name, _ in found.values() if name]
    fused: dict[str, Any] = json.loads((tmp_path / "run" / "run.json").read_text())["fused_kernels"]
    print(
        f"compiled: {len(found)} kernels, {len(inside) / len(found):.2%} in {set(inside)}, {len(fused)} fused"
    )
    assert set(inside) == {"GPT"}
    assert any(name.startswith("triton_") and "aten." in operations[0] for name, operations in fused.items())
    sums_are_equal(tmp_path / "run")


def test_two_ranks(tmp_path: Path) -> None:
    if len(DEVICES.names) < 2:
        pytest.skip("needs two GPUs")
    launcher = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--no-python")
    nsyswrap(
        *("profile", "--no-stats", "-o", tmp_path / "job", "--steps", "10-13", "--modules", GPT, "--ddp"),
        launcher=launcher,
    )
    for rank in range(2):
        run = tmp_path / "job" / f"rank-{rank}"
        steps = steps_of(run)
        print(f"rank {rank}: {steps}")
        assert list(steps) == [f"step {number}" for number in STEPS]
        assert len(set(steps.values())) == 1
        sums_are_equal(run)


def test_the_cost_of_the_hooks(tmp_path: Path) -> None:
    """Steps of five runs with modules against five without, under nsys; the figure is printed, not judged.

    Runs differ less on fixed cores: run it under ``taskset -c 2-9``.
    """
    medians: dict[bool, list[float]] = {False: [], True: []}
    for number in range(5):
        for marked in (False, True):
            run = tmp_path / f"{number}-{marked}"
            words = ("--modules", "3") if marked else ()
            nsyswrap("profile", "--no-stats", "-o", run, "--steps", "10-29", *words, GPT, "--steps", "30")
            lasts = [end - start for _, start, end, _ in ranges(run, "step %") if end]
            medians[marked].append(statistics.median(lasts) / 1e6)
    without, with_marks = (statistics.median(medians[marked]) for marked in (False, True))
    print(
        f"step {without:.2f} ms, with modules {with_marks:.2f} ms: {with_marks / without - 1:+.1%} {medians}"
    )
    assert with_marks > 0
