"""A new report or format is one new file and its line in an order: proved on a copy of the package."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_export import kernel, write

import nsyswrap

REPORT = '''"""The longest kernel."""

from nsyswrap.reports.table import Column, Report, Result, Schema


def compute(capture):
    """Return one row."""
    times = capture.columns("kernel", "start_ns", "end_ns")
    return Result({"longest_ns": (times["end_ns"] - times["start_ns"]).max(keepdims=True)})


SCHEMA = Schema(
    "longest_kernel", "Longest Kernel", Column("longest_ns", "Longest", "duration of the longest kernel")
)
REPORT = Report(SCHEMA, needs=(("kernel",),), compute=compute)
'''
FORMAT = '''"""The number of rows of each report."""

from nsyswrap.render.formats import Format


def render(document, layout):
    """Return a line for each table."""
    return {f"{table.label}.rows": f"{table.label}: {len(table)}\\n" for table in document.tables}


FORMAT = Format(render)
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return Path(
        shutil.copytree(
            Path(nsyswrap.__file__).parent,
            tmp_path / "copy" / "nsyswrap",
            ignore=shutil.ignore_patterns("recorded", "__pycache__"),
        )
    )


def add_line(order: Path, after: str, line: str) -> None:
    text = order.read_text(encoding="utf-8")
    assert text.count(after) == 1
    order.write_text(text.replace(after, after + line), encoding="utf-8")


def report(package: Path, *arguments: str | Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    command = [sys.executable, "-m", "nsyswrap", "report", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=package.parent, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_report(package: Path, tmp_path: Path) -> None:
    folder = package / "reports" / "insight"
    (folder / "longest_kernel.py").write_text(REPORT, encoding="utf-8")
    add_line(folder / "__init__.py", '    "advice",\n', '    "longest_kernel",\n')
    export = write(tmp_path / "a.sqlite", kernel("k", 0, 10), kernel("k", 20, 50))
    assert report(package, export, "-r", "longest_kernel", "--format", "csv") == "longest_ns\n30\n"
    assert "duration of the longest kernel" in report(package, "--explain", "longest_kernel")
    assert "Longest Kernel" in report(package, export, "--list")
    assert '"longest_ns": 30' in report(package, export, "-r", "all", "--format", "json")


def test_a_format(package: Path, tmp_path: Path) -> None:
    folder = package / "render" / "formats"
    (folder / "rows.py").write_text(FORMAT, encoding="utf-8")
    add_line(folder / "__init__.py", 'NAMES = ("text", ', '"rows", ')
    export = write(tmp_path / "a.sqlite", kernel("k", 0, 10), kernel("l", 20, 50))
    assert report(package, export, "-r", "cuda_gpu_kern_sum", "--format", "rows") == "cuda_gpu_kern_sum: 2\n"
    assert "Write text, rows, csv," in report(package, "--help")
