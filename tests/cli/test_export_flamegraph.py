"""`export --flamegraph`: GPU time as folded stacks, whose numbers add up to that of all kernels."""

from pathlib import Path

import pytest
from conftest import Cli
from made_modules import Training, training
from tiny_export import call, kernel, nvtx, write

# Per step: embed 3; layers 10 and 20 forward, 20 and 40 backward and 5 for each bias; adam 7.
STACKS = """\
GPT;embed 6
GPT;layers.0;(backward);bias 10
GPT;layers.0;(backward);gemm 40
GPT;layers.0;gemm 20
GPT;layers.1;(backward);bias 10
GPT;layers.1;(backward);gemm 80
GPT;layers.1;gemm 40
optimizer;adam 14
"""


def test_the_stacks_are_the_tree_the_phase_and_the_kernel(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "a.sqlite", *training(steps=2))
    done = cli("export", "a.sqlite", "--flamegraph", "gpu.txt")
    assert (done.returncode, done.stderr) == (0, "wrote gpu.txt: 8 stacks of GPU time in ns\n")
    assert (tmp_path / "gpu.txt").read_text() == STACKS
    assert cli("export", "a.sqlite", "--flamegraph", "-").stdout == STACKS
    assert "already exists" in cli("export", "a.sqlite", "--flamegraph", "gpu.txt").stderr


def test_each_rank_has_its_own_root(cli: Cli, tmp_path: Path) -> None:
    for rank in (0, 1):
        write(tmp_path / f"rank-{rank}.sqlite", *training(steps=1 + rank))
    lines = cli("export", "rank-0.sqlite", "rank-1.sqlite", "--flamegraph", "-").stdout.splitlines()
    assert [lines[0], lines[8]] == ["rank 0;GPT;embed 3", "rank 1;GPT;embed 6"]


def test_a_name_cannot_make_a_frame_or_a_line(cli: Cli, tmp_path: Path) -> None:
    made = Training()
    made.range("a;b\n c", 0, 100)
    made.launch("k;\x1b[2J", 10, 5)
    made.launch("alone", 500, 2)
    write(tmp_path / "a.sqlite", *made.rows)
    assert cli("export", "a.sqlite", "--flamegraph", "-").stdout == (
        "(no range);alone 2\na,b\\n c;k,\\x1b[2J 5\n"
    )


def test_a_part_of_a_capture(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "a.sqlite", *training(steps=2))
    done = cli("export", "a.sqlite", "--flamegraph", "-", "--time", "1us/", "--clip", "yes")
    assert sum(int(line.rpartition(" ")[2]) for line in done.stdout.splitlines()) == 110


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ((call("launch", 0, 1, 1), kernel("k", 5, 6, 1)), "no NVTX events in this capture"),
        ((nvtx("a", 0, 1), call("launch", 0, 1, 1), kernel("k", 5, 5, 1)), "no kernels in the selection"),
    ],
)
def test_what_it_cannot_do(cli: Cli, tmp_path: Path, rows: tuple[object, ...], error: str) -> None:
    write(tmp_path / "a.sqlite", *rows)  # type: ignore[arg-type]
    done = cli("export", "a.sqlite", "--flamegraph", "x.txt")
    assert done.returncode != 0
    assert error in done.stderr
    assert not (tmp_path / "x.txt").exists()
    both = cli("export", "a.sqlite", "--flamegraph", "-", "--perfetto", "-", "--format", "json")
    assert "the timeline and the flame graph cannot both go to stdout" in both.stderr
