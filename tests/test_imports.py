"""Which module may import which: analyse and collect meet at the run folder and in the command line alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "nsyswrap"
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}

# Three stacks, lowest first: a module imports what stands below it or beside it, and of the bottom anything.
BOTTOM = (
    {"errors", "units", "instruments", "measurement", "palette", "output", "guard"},
    {"holding"},
    {"folder"},
    {"nsys_install"},
    {"nsys"},
)
COLLECT = (
    {"_launch", "device", "private"},
    {"nvcc", "second_import", "supervise", "torch_extension", "experiment", "profilers", "rank_processes"},
    {"program", "clocks", "launcher", "outcome"},
    {"run"},
    {"scenario"},
    {"planned"},
    {"plan", "batch"},
    {"planned_run", "executors"},
)
ANALYSE = (
    {"schema", "records"},
    {"pages"},
    {"reader"},
    {"redact"},
    {"export_cache"},
    {"frames", "info", "locate", "selection"},
    {"view"},
    {"capture"},
    {"report"},
    {"columns"},
    {"stats", "join", "operations", "nesting", "nvtx", "projection"},
    {"intervals", "device_work", "rules", "kernel_names"},
    {"work", "calls", "kernel_classes"},
    {"launched", "idle", "transfers"},
    {"launch_bound", "trust", "audit"},
    {"reports", "silence", "advice", "findings"},
    {"summary", "variants", "cross_check", "formats", "together", "trace_events", "event_files", "notebook"},
    {"digest", "ranks", "plots"},
    {"merge"},
    {"collected", "page"},
)
TOP = {"api", "cli", "__main__"}  # where both sides meet
HEAVY = {"numpy", "pandas", "rich", "torch", "matplotlib"}


def part(module: str) -> str:
    """``nsyswrap.reports.cuda_api_sum`` belongs to ``reports``; the package itself is ``""``."""
    return module.removeprefix("nsyswrap").removeprefix(".").partition(".")[0]


def imports(path: Path) -> set[str]:
    """Every module of the package that a file imports, inside functions too, but not for types alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    skipped = {inner for node in for_types for inner in ast.walk(node)}
    found: set[str] = set()
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
    return {name for name in found if name in MODULES}


def allowed(name: str) -> set[str]:
    """What a part of the package may import."""
    everything = set[str]().union(*BOTTOM, *COLLECT, *ANALYSE, TOP)
    if name == "":
        return {"api", "capture", "reports"}  # the public names, on their first use
    if name in TOP:
        return everything
    [stack] = [stack for stack in (BOTTOM, COLLECT, ANALYSE) if any(name in group for group in stack)]
    level = next(i for i, group in enumerate(stack) if name in group)
    return set[str]().union(*stack[: level + 1], *(() if stack is BOTTOM else BOTTOM))


def test_every_module_has_its_place() -> None:
    known = set[str]().union(*BOTTOM, *COLLECT, *ANALYSE, TOP, {""})
    assert {part(module) for module in MODULES} == known


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_go_one_way(module: str) -> None:
    others = {part(name) for name in imports(MODULES[module])} - {""}
    assert others <= allowed(part(module)) | {part(module)}


def test_the_imports_are_found() -> None:
    assert {part(name) for name in imports(PACKAGE / "api.py")} >= {"redact", "capture", "run", "nsys"}
    assert "nsyswrap.run" in imports(PACKAGE / "cli" / "profile.py")  # inside a function


def test_the_launcher_and_the_device_query_import_nothing_of_ours() -> None:
    assert imports(PACKAGE / "_launch.py") == set()
    assert imports(PACKAGE / "device.py") == set()


def loaded_by(code: str) -> set[str]:
    """The top-level packages that a new Python holds after running ``code``."""
    wrapped = (
        f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint(*sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", wrapped]
    done = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize(
    "code",
    [
        "import nsyswrap; dir(nsyswrap)",
        "import nsyswrap.cli; nsyswrap.cli.main(['--help'])",
        "import nsyswrap.cli; nsyswrap.cli.main(['profile', '--help'])",
        "import nsyswrap.run, nsyswrap.program",  # before a program runs
    ],
)
def test_nothing_heavy_is_loaded(code: str) -> None:
    loaded = loaded_by(code)
    assert "nsyswrap" in loaded
    assert loaded & HEAVY == set()
