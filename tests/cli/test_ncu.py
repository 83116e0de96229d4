"""``report --ncu``: which launch of a kernel the command profiles, and with what."""

import re
import shlex
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import Cli
from tiny_export import Row, call, changed, kernel, row, write

ADD = "void lib::add<(int)4, float>(float *)"
OTHER_ADD = "void lib::add<(int)4, double>(double *)"
OWN = "own(float *)"


def named(name: str, start: int, end: int, number: int) -> Row:
    """A kernel whose function has neither namespaces nor arguments."""
    function = re.sub(r"void |lib::|<.*|\(.*", "", name)
    return changed(kernel(name, start, end, number), shortName=function)


def program(*lengths: int) -> list[Row]:
    """A launch of each length, alternating with a kernel of the same function and one of another."""
    rows = [row("META_DATA_CAPTURE", name="PROCESS_0:COMMAND", value="./my program")]
    rows.append(row("META_DATA_CAPTURE", name="PROCESS_0:ARGUMENT_0", value="--n=$5"))
    for number, length in enumerate(lengths):
        at, first = 1000 * number, 3 * number + 1
        for place, (name, lasting) in enumerate(((OTHER_ADD, 10), (ADD, length), (OWN, 20))):
            begin = at + 300 * place
            rows.append(call("cudaLaunchKernel", begin, begin + 5, first + place))
            rows.append(named(name, begin + 5, begin + 5 + lasting, first + place))
    return rows


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return write(tmp_path / "a.sqlite", *program(90, 200, 110, 100, 30))


SECTIONS = ["SpeedOfLight", "MemoryWorkloadAnalysis", "ComputeWorkloadAnalysis", "Occupancy"]


@pytest.mark.parametrize("name", ["", ADD, "add", "ADD<(int)4, float"])
def test_the_median_launch_is_counted_among_those_of_its_function(cli: Cli, capture: Path, name: str) -> None:
    done = cli("report", capture, "--ncu", *([name] if name else []))
    # 100 ns is the median. Of the launches of a function add, each has one of the other type before it.
    assert shlex.split(done.stdout) == [
        *("ncu", "--target-processes", "all", "--kernel-name", "regex:^add$"),
        *("--launch-skip", "7", "--launch-count", "1"),
        *(word for section in SECTIONS for word in ("--section", section)),
        *("./my program", "--n=$5"),
    ]
    assert "that takes the median time, 100 ns (4 launches)" in done.stderr


def test_the_other_types_of_a_function_have_their_own_median(cli: Cli, capture: Path) -> None:
    words = shlex.split(cli("report", capture, "--ncu", OTHER_ADD).stdout)
    assert words[words.index("--launch-skip") + 1] in ("2", "4", "6", "8")  # all take 10 ns


def test_names_that_are_not_one_kernel(cli: Cli, capture: Path) -> None:
    several = cli("report", capture, "--ncu", "d")
    assert (several.returncode, several.stdout) == (2, "")
    assert "2 kernels have 'd' in their names" in several.stderr
    none = cli("report", capture, "--ncu", "odd")
    assert (none.returncode, none.stdout) == (2, "")
    assert "no kernel named 'odd'" in none.stderr
    assert "did you mean 'add'?" in none.stderr


def test_kernels_without_a_name(cli: Cli, tmp_path: Path) -> None:
    # Their names are missing from the table of texts.
    path = write(tmp_path / "a.sqlite", kernel(77, 0, 10), kernel(78, 10, 40), kernel(78, 40, 70))
    done = cli("report", path, "--ncu")
    assert (done.returncode, done.stdout) == (65, "")
    assert "has a name" in done.stderr
    assert "--ncu" not in cli("report", path).stdout


def test_without_kernels(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "a.sqlite", call("cudaLaunchKernel", 0, 10, 1))
    done = cli("report", path, "--ncu")
    assert done.returncode == 65
    assert "no kernels in" in done.stderr


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--advice",), "--ncu cannot be used with --advice"),
        (("-r", "gpu_time"), "--ncu cannot be used with --report"),
        (("--format", "json"), "--ncu cannot be used with --format"),
        (("--list",), "--list cannot be used with --ncu"),
    ],
)
def test_options_that_do_not_go_with_it(
    cli: Cli, capture: Path, options: tuple[str, ...], problem: str
) -> None:
    done = cli("report", capture, "--ncu", *options)
    assert done.returncode == 2
    assert problem in done.stderr


def test_one_capture_at_a_time(cli: Cli, capture: Path) -> None:
    assert "--ncu takes one capture" in cli("report", capture, capture, "--ncu").stderr


def test_without_a_capture_it_is_a_kernel_of_the_newest_run(cli: Cli, tmp_path: Path) -> None:
    assert "no run was begun" in cli("report", "--ncu").stderr
    run = tmp_path / "nsyswrap-runs" / "mine"
    run.mkdir(parents=True)
    write(run / "report.sqlite", *program(90, 200, 110, 100, 30))
    (run / "status.json").write_text("{}")
    assert "--kernel-name 'regex:^add$'" in cli("report", "--ncu").stdout


def test_the_name_is_no_pattern_and_no_command(cli: Cli, tmp_path: Path) -> None:
    one = changed(kernel("f.*\x1b[2J$(id)", 10, 50), shortName="f.*$(id)")
    done = cli("report", write(tmp_path / "a.sqlite", one), "--ncu")
    words = shlex.split(done.stdout)
    assert words[4] == r"regex:^f\.\*\$\(id\)$"
    assert words[-1] == "PROGRAM"
    assert "replace PROGRAM" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "blocks", "sections"),
    [
        ("sgemm_kernel", 132, ["SpeedOfLight", "ComputeWorkloadAnalysis", "WarpStateStats"]),
        ("vectorized_elementwise_kernel", 132, ["SpeedOfLight", "MemoryWorkloadAnalysis", "Occupancy"]),
        ("sgemm_kernel", 4, ["SpeedOfLight", "LaunchStats", "Occupancy"]),
    ],
)
def test_sections_ask_what_bounds_this_kind(
    cli: Cli, tmp_path: Path, name: str, blocks: int, sections: list[str]
) -> None:
    gpu = row("TARGET_INFO_GPU", id=0, name="GPU", smCount=132)
    path = write(tmp_path / "a.sqlite", gpu, kernel(name, 0, 10, gridX=blocks))
    words = shlex.split(cli("report", path, "--ncu").stdout)
    assert [value for option, value in pairwise(words) if option == "--section"] == sections


PROGRAM = """
#include <cuda_runtime.h>
template <typename T> __global__ void spin(T *out, long long cycles) {
    long long begin = clock64();
    while (clock64() - begin < cycles) {}
    if (threadIdx.x == 0) out[blockIdx.x] = T(cycles);
}
__global__ void between(float *out) { out[0] = 1; }
int main() {
    double *out;
    cudaMalloc(&out, 1 << 20);
    spin<double><<<1, 32>>>(out, 400000000);  // until clocks have risen
    for (int launch = 0; launch < 21; ++launch) {  // each with another number of blocks, and as long
        int blocks = (launch * 8) % 21 + 1;
        spin<double><<<1, 32>>>(out, 1000);
        spin<float><<<blocks, 32>>>((float *)out, 20000LL * blocks);
        between<<<1, 32>>>((float *)out);
    }
    return cudaDeviceSynchronize();
}
"""


def test_a_capture_in_the_place_of_the_kernel_is_told(cli: Cli, capture: Path) -> None:
    done = cli("report", "--ncu", capture.name)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "nsyswrap: --ncu takes a kernel, not a.sqlite",
        "  nsyswrap report a.sqlite --ncu",
    ]


@pytest.mark.gpu
def test_ncu_profiles_the_launch_that_was_meant(cli: Cli, tmp_path: Path) -> None:
    if shutil.which("ncu") is None:
        pytest.skip("needs ncu")
    (tmp_path / "spins.cu").write_text(PROGRAM, encoding="utf-8")
    subprocess.run(["nvcc", "-O2", "-o", "spins", "spins.cu"], cwd=tmp_path, check=True)
    run = tmp_path / "run"
    assert cli("profile", "-o", run, "--", tmp_path / "spins").returncode == 0
    printed = cli("report", run, "--ncu", "spin<float>").stdout
    done = subprocess.run(["bash", "-c", printed], cwd=tmp_path, check=False, capture_output=True, text=True)
    if "ERR_NVGPUCTRPERM" in done.stdout + done.stderr:
        pytest.skip("needs the right to read GPU counters")
    profiled = re.findall(r"spin<float>\S*.*?\((\d+), 1, 1\)x\(32, 1, 1\)", done.stdout)
    # The command names a launch by how many of its function are before it: one, then two in each step.
    step, other = divmod(int(printed.split("--launch-skip ")[1].split()[0]) - 1, 2)
    assert other == 1
    assert profiled == [str(step * 8 % 21 + 1)], (printed, done.stdout + done.stderr)
