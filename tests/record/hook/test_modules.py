"""The ranges around forwards, as a real PyTorch and a real nsys make them, and torch.compile as without."""

import importlib
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from conftest import Cli

import nsyswrap
from nsyswrap import open_capture
from nsyswrap.analysis.range_tree import range_tree_of

PARTS = ("norm1", "attention", "norm2", "mlp")
HOOK = Path(nsyswrap.__file__).parent / "record" / "in_program" / "hook"
PROGRAMS = Path(__file__).parents[1] / "programs"
ODD = """
import threading, torch, warnings
from torch import nn
warnings.simplefilter("error", UserWarning)

class Leaves(nn.Module):  # by an exception that nobody below catches
    def forward(self, x): raise KeyError

class Holds(nn.Module):
    def __init__(self):
        super().__init__()
        self.module, self.hidden = nn.Linear(8, 8), [nn.Tanh()]
    def forward(self, x): return self.hidden[0](self.module(x))

x = torch.zeros(1, 8)
try: nn.Sequential(nn.Sequential(Leaves()))(x)
except KeyError: pass
Holds()(x)
nn.DataParallel(Holds())(x)
thread = threading.Thread(target=nn.Sequential(nn.ReLU()), args=(x,))
thread.start(); thread.join()
nn.Sequential(torch.compile(nn.Linear(8, 8), backend="eager"))(x)
torch.compile(Holds(), backend="eager")(x)
"""
RANGES = """
SELECT e.globalTid, e.start, e.end, coalesce(e.text, s.value)
FROM NVTX_EVENTS AS e LEFT JOIN StringIds AS s ON s.id = e.textId
WHERE e.eventType = 59 AND e.domainId =
  (SELECT domainId FROM NVTX_EVENTS WHERE eventType = 75 AND text = 'nsyswrap.modules') ORDER BY e.start
"""
ALL_RANGES = """
SELECT coalesce(e.text, s.value), e.start, e.end
FROM NVTX_EVENTS AS e LEFT JOIN StringIds AS s ON s.id = e.textId
WHERE e.eventType IN (59, 60) ORDER BY e.start
"""
COUNTERS = """
import json, torch, cpu_nvtx
from torch._dynamo.utils import counters
from train_gpt import GPT
model = GPT(64, 32, 16, 1)
compiled = torch.compile(model, backend="eager")
for length in (16, 16, 8):
    compiled(torch.randint(64, (2, length))).sum().backward()

class Breaks(torch.nn.Sequential):
    def forward(self, x):
        x = self[0](x)
        torch._dynamo.graph_break()
        return self[1](x)

broken = Breaks(torch.nn.Linear(4, 4), Breaks(torch.nn.Linear(4, 4), torch.nn.ReLU()))
broken[0].register_forward_hook(lambda *_: None)
broken(torch.zeros(2, 4))
broken.compile(backend="eager")
for _ in range(2):
    broken(torch.zeros(2, 4))
print(json.dumps(counters))
"""
CLOSURES = """
import warnings, cpu_nvtx, torch
warnings.simplefilter("error", UserWarning)
model = torch.nn.Sequential(torch.nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def closure():
    optimizer.zero_grad()
    with torch.profiler.record_function("inside"):
        loss = model(torch.ones(2, 8)).sum()
        loss.backward()
    return loss

for _ in range(5):
    with torch.profiler.record_function("around"):
        optimizer.step(closure)
"""
GENERATED = """
# Topologically Sorted Source Nodes: [linear, gelu], Original ATen: [aten.addmm, aten.gelu]
# Source node to ATen node mapping:
triton_poi_fused_addmm_gelu_0 = async_compile.triton('triton_poi_fused_addmm_gelu_0', '''
def triton_poi_fused_addmm_gelu_0(in_ptr0): pass
''')
def call(args):
        # Topologically Sorted Source Nodes: [gelu], Original ATen: [aten.gelu]
        triton_poi_fused_addmm_gelu_0.run(arg0, stream=stream0)
        # Topologically Sorted Source Nodes: [], Original ATen: []
        extern_kernels.mm(buf0, buf1)
        # Topologically Sorted Source Nodes: [], Original ATen: [aten._foreach_copy]
        triton_for_fused_1.run(arg1, stream=stream0)
"""


def nested(export: Path) -> list[str]:
    """Return the ranges of each thread in order, a dash for each range around one."""
    with closing(sqlite3.connect(export)) as db:
        rows = db.execute(RANGES).fetchall()
    lines = []
    for thread, start, end, text in rows:
        depth = sum(own == thread and begin < start and end < last for own, begin, last, _ in rows)
        lines.append("-" * depth + text)
    return lines


@pytest.mark.usefixtures("torch")
def test_each_forward_has_a_range_down_to_the_depth(cli: Cli, nsys: str, tmp_path: Path) -> None:
    done = cli(
        *("profile", "--no-stats", "--nsys", nsys, "-o", "run", "--modules", "3"),
        *(PROGRAMS / "train_gpt.py", "--small", "--steps", "2"),
    )
    assert done.returncode == 0, done.stderr
    blocks = [
        line
        for number in range(6)
        for line in (f"-layers.{number}", *(f"--layers.{number}.{part}" for part in PARTS))
    ]
    ranges = ["GPT", "-token", "-place", *blocks, "-norm", "-head"]
    assert nested(tmp_path / "run" / "report.sqlite") == 2 * ranges


@pytest.mark.usefixtures("torch")
def test_names_of_odd_modules(cli: Cli, nsys: str, tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(ODD)
    done = cli(*("profile", "--no-stats", "--nsys", nsys, "-o", "run", "--modules", "1", "odd.py"))
    assert done.returncode == 0, done.stderr
    assert nested(tmp_path / "run" / "report.sqlite") == [
        *("Sequential", "-0"),
        *("Holds", "-module", "-Tanh"),
        *("Holds", "-module", "-Tanh"),  # the wrapper's range is the module's
        *("Sequential", "-0"),
        *("Sequential", "-0"),  # a compiled child keeps its name
        "Holds",
    ]


@pytest.mark.usefixtures("torch")
def test_torch_compile_sees_no_difference(tmp_path: Path) -> None:
    def counted(*folders: Path, **variables: str) -> dict[str, dict[str, int]]:
        path = os.pathsep.join(map(str, (*folders, PROGRAMS)))
        environment = {
            **os.environ,
            "PYTHONPATH": path,
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
            **variables,
        }
        command = [sys.executable, "-c", COUNTERS]
        counters = json.loads(
            subprocess.run(command, env=environment, capture_output=True, check=True).stdout
        )
        assert counters["stats"]["unique_graphs"] > 0
        return counters  # type: ignore[no-any-return]

    notes = {"NSYSWRAP_HOOK_NOTES": str(tmp_path)}
    assert counted(HOOK, NSYSWRAP_HOOK_MODULES="3", **notes) == counted()
    (written,) = [json.loads(path.read_text()) for path in tmp_path.glob("[0-9]*.json")]
    assert not written.get("failures")


@pytest.mark.usefixtures("torch")
def test_a_backward_belongs_to_the_module_that_recorded_its_operation(
    cli: Cli, nsys: str, tmp_path: Path
) -> None:
    done = cli(
        *("profile", "--no-stats", "--nsys", nsys, "-o", "run", "--modules", "2"), PROGRAMS / "train_told.py"
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    tree = range_tree_of(open_capture(tmp_path / "run"))
    told: dict[str, list[str]] = {}
    for position, text in enumerate(tree.ranges.text):
        name = (tree.ranges.texts[text].names or ("",))[-1]
        function = int(tree.ranges.parent[position])
        if name.startswith("told ") and function >= 0:
            node = int(tree.node_of_range[function])
            told.setdefault(name.removeprefix("told "), []).append(tree.module[node] if node >= 0 else "")
    blocks = {"first": 12, **{f"blocks.{number}": 12 for number in range(3)}, "last": 24}
    assert {name: len(of) for name, of in told.items()} == {"": 6, "Model": 6, **blocks}
    assert {name: set(of) for name, of in told.items()} == {name: {name} for name in told}
    assert tree.unmatched == 0


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(("arguments", "with_shapes"), [((), [0, 1]), (("--steps", "2-4"), [2])])
def test_shapes_are_recorded_in_the_first_steps(
    cli: Cli, nsys: str, tmp_path: Path, arguments: tuple[str, ...], with_shapes: list[int]
) -> None:
    """They end inside of ranges of PyTorch's, all of which stay whole."""
    (tmp_path / "closures.py").write_text(f"import sys; sys.path.append({str(PROGRAMS)!r})\n{CLOSURES}")
    done = cli(
        *("profile", "--no-stats", "--nsys", nsys, "-o", "run", "--modules", "2", *arguments, "closures.py")
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    with closing(sqlite3.connect(tmp_path / "run" / "report.sqlite")) as db:
        rows = db.execute(ALL_RANGES).fetchall()
    steps = {int(name.removeprefix("step ")): (start, end) for name, start, end in rows if "step " in name}
    products = [
        start for name, start, _ in rows if name.startswith("aten::addmm,") and "[2, 8], [8, 4]" in name
    ]
    assert [
        number for at in products for number, (start, end) in steps.items() if start < at < end
    ] == with_shapes
    for name in ("inside", "around"):
        ends = [end for text, _, end in rows if text.startswith(f"{name},")]
        assert len(ends) >= len(steps) - 1 - len(with_shapes)
        assert None not in ends


def test_operations_of_fused_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HOOK))
    modules = importlib.import_module("nsyswrap_hook.modules")
    assert modules.operations(GENERATED) == {
        "triton_poi_fused_addmm_gelu_0": ["aten.addmm", "aten.gelu"],
        "triton_for_fused_1": ["aten._foreach_copy"],
    }
