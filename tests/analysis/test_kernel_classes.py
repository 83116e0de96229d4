"""Kernels by class, on exports worked out on paper; and rules of the user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tiny_export import PID, graph, kernel, nvtx, opened, write

from nsyswrap.analysis.kernel_names import read_rules
from nsyswrap.base.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Cli

    from nsyswrap.api import Capture

GEMM = "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN"
GEMM_2 = "ampere_sgemm_128x64_nn"
SUM = "void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float, X>>(T3)"
REPORT = "kernel_class_sum"


def classes(capture: Capture) -> dict[object, tuple[object, ...]]:
    """Class: kernels, instances, percent, then the total, mean, median, p95, p99 in ns, and the largest."""
    return {found[0]: found[1:] for found in capture.report(REPORT).rows()}


def test_by_class(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(kernel(GEMM, 100 * i, 100 * i + 10 + i) for i in range(4)),  # 10, 11, 12, 13 ns: 46
        kernel(GEMM_2, 1000, 1050, pid=PID + 1, deviceId=1),  # 50 ns: of most time
        kernel(SUM, 2000, 2003),
        kernel("mine(int)", 3000, 3001),
    )
    assert classes(capture) == {
        "gemm": (2, 5, 96.0, 96, 19.2, 12.0, 50.0, 50.0, GEMM_2),
        "reduce": (1, 1, 3.0, 3, 3.0, 3.0, 3.0, 3.0, SUM),
        "other": (1, 1, 1.0, 1, 1.0, 1.0, 1.0, 1.0, "mine(int)"),
    }
    assert list(classes(capture)) == ["gemm", "reduce", "other"]  # the most time first


def test_quantiles_are_nsys_own(tmp_path: Path) -> None:
    """Of 1 to 100 ns 95 % take up to 95 ns: the value is between that one and the next."""
    capture = opened(tmp_path, *(kernel(GEMM, 1000 * i, 1000 * i + i) for i in range(1, 101)))
    assert classes(capture)["gemm"][5:8] == (50.5, 95.5, 99.5)


def test_of_equal_kernels_the_first_by_name_is_the_largest(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel(GEMM, 0, 10), kernel(GEMM_2, 10, 20))
    assert classes(capture)["gemm"][-1] == GEMM_2  # a before n


def test_names_are_as_asked_for_and_the_class_is_of_the_full_one(tmp_path: Path) -> None:
    copy = (
        "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda("
        "at::TensorIteratorBase &)::[lambda(float) (instance 1)], (int)4>(int, T1)"
    )
    add = "void at::native::unrolled_elementwise_kernel<at::native::CUDAFunctor_add<float>, (int)4>(int, T1)"
    base = "unrolled_elementwise_kernel"
    rows = (kernel(copy, 0, 10, shortName=base), kernel(add, 10, 15, shortName=base))
    capture = opened(tmp_path, *rows, names="base")
    assert {kind: found[-1] for kind, found in classes(capture).items()} == {
        "copy": base,
        "elementwise": base,
    }


def test_kernels_count_by_the_names_they_are_called_by(tmp_path: Path) -> None:
    names = ("f<int>", "f<long>", "g<int>")
    rows = (kernel(name, 2 * i, 2 * i + 1, shortName=name[0]) for i, name in enumerate(names))
    capture = opened(tmp_path, *rows)
    assert classes(capture)["other"][0] == 3
    assert classes(capture.viewed(names="base"))["other"][0] == 2


def test_a_kernel_without_a_name(tmp_path: Path) -> None:
    assert classes(opened(tmp_path, kernel(7, 0, 10))) == {
        "other": (1, 1, 100.0, 10, 10.0, 10.0, 10.0, 10.0, None)
    }


def test_kernels_that_take_no_time_have_no_share(tmp_path: Path) -> None:
    assert classes(opened(tmp_path, kernel(GEMM, 5, 5)))["gemm"][:4] == (1, 1, None, 0)


def test_a_window_cuts_kernels_off(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel(GEMM, 0, 100), kernel(SUM, 100, 200), nvtx("step", 50, 120))
    part = capture.select(time="50ns/120ns")
    assert {kind: found[3] for kind, found in classes(part).items()} == {"gemm": 50, "reduce": 20}


def test_whole_graphs_are_said_to_be_left_out(tmp_path: Path) -> None:
    table = opened(tmp_path, kernel(GEMM, 0, 10), graph(20, 90, 1)).report(REPORT)
    assert len(table) == 1
    assert any(note.startswith("1 whole-graph execution") for note in table.notes)


def test_own_rules(tmp_path: Path) -> None:
    rules = (("stencil", r"^diffuse"), ("mine", "nvjet|diffuse"))
    capture = opened(tmp_path, kernel("diffuse(double *)", 0, 5), kernel(GEMM, 5, 15), kernel(SUM, 15, 16))
    seen = capture.viewed(classes=rules)
    assert {kind: found[3] for kind, found in classes(seen).items()} == {
        "mine": 10,
        "stencil": 5,
        "reduce": 1,
    }
    assert set(classes(capture)) == {"gemm", "other", "reduce"}


def test_a_rule_takes_a_class_that_is_there(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("diffuse(double *)", 0, 5), kernel(GEMM, 5, 15))
    assert set(classes(capture.viewed(classes=(("gemm", "diffuse"),)))) == {"gemm"}


def rules_of(folder: Path, content: str) -> tuple[tuple[str, str], ...]:
    path = folder / "classes.toml"
    path.write_text(content, encoding="utf-8")
    return read_rules(path)


def test_rules_in_a_file(tmp_path: Path) -> None:
    content = """
        [[class]]
        name = "stencil"
        pattern = 'advec|diffuse'

        [[class]]
        name = "gemm"
        pattern = "^my_product"
    """
    assert rules_of(tmp_path, content) == (("stencil", "advec|diffuse"), ("gemm", "^my_product"))


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ("", "there is no [[class]] in it"),
        ("class = 3", "there is no [[class]] in it"),
        ("[class]\nname = 'a'\npattern = 'b'", "there is no [[class]] in it"),
        ("[[class]", "is no TOML"),
        ("[[classes]]\nname = 'a'", "there is no 'classes' in such a file"),
        ("[[class]]\nname = 'a'", "[[class]] number 1 lacks 'pattern'"),
        ("[[class]]\nname = 'a'\nregex = 'b'", "number 1 lacks 'pattern' and has an unknown 'regex'"),
        ("[[class]]\nname = 'a'\npattern = 'b'\nx = 1", "number 1 has an unknown 'x'"),
        ("class = [1]", "number 1 lacks 'name' and lacks 'pattern'"),
        ("[[class]]\nname = 1\npattern = 'b'", "name and pattern are texts, and not empty"),
        ("[[class]]\nname = ''\npattern = 'b'", "name and pattern are texts, and not empty"),
        ("[[class]]\nname = 'a'\npattern = 'b'\n[[class]]\nname = 'a'\npattern = '('", "number 2: '('"),
    ],
)
def test_a_wrong_file_says_what_and_where(tmp_path: Path, content: str, wrong: str) -> None:
    with pytest.raises(UsageError) as caught:
        rules_of(tmp_path, content)
    assert wrong in str(caught.value)
    assert "classes.toml" in str(caught.value)
    assert '[[class]] name = "..." pattern = "REGEX"' in caught.value.hint


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*nowhere\.toml: No such file"):
        read_rules(tmp_path / "nowhere.toml")
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"x\.toml is no TOML"):
        read_rules(tmp_path / "x.toml")


def test_the_command_takes_a_file(cli: Cli, tmp_path: Path) -> None:
    export = write(tmp_path / "a.sqlite", kernel("diffuse(double *)", 0, 5))
    (tmp_path / "own.toml").write_text("[[class]]\nname = 'stencil'\npattern = 'diffuse'\n", encoding="utf-8")
    done = cli("report", export, "-r", REPORT, "--format", "csv", "--classes", "own.toml")
    assert done.stdout.splitlines()[1].startswith("stencil,1,1,100.0,5,")
    wrong = cli("report", export, "-r", REPORT, "--classes", "nowhere.toml")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("nsyswrap: cannot read nowhere.toml: No such file")
