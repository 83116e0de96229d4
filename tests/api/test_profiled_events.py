"""Counts, times and bytes of a profile: on recorded captures, and on rows worked out on paper."""

from pathlib import Path

import pytest
from recorded import SHIPPED, run_folder
from tiny_export import Row, call, diagnostic, graph, kernel, memcpy, write

from nsyswrap.api import CaptureReader, Run, open_capture, profiled
from nsyswrap.api.gpu_profile import Profile, Profiler
from nsyswrap.base.errors import CaptureError, NotInCapture, UsageError
from nsyswrap.base.run_folder import Status

LAUNCH = "cudaLaunchKernel"
GEMM = "void gemm<float, 4>(float*)"


def profile_of(request: pytest.FixtureRequest, *folders: Path) -> Profile:
    done = Status("done", 0, 0, 0)
    profiler = Profiler(folders[0].parent, request.path.parent, request.node)
    return Profile(profiler, folders[0].parent, tuple(Run(folder, done) for folder in folders))


@pytest.fixture
def add2(request: pytest.FixtureRequest) -> Profile:
    return profile_of(request, SHIPPED / "add2" / "both")


def runs(folder: Path, *captures: tuple[Row, ...]) -> list[CaptureReader]:
    folder.mkdir(exist_ok=True)
    return [CaptureReader(write(folder / f"{number}.sqlite", *rows)) for number, rows in enumerate(captures)]


def test_a_recorded_program(add2: Profile) -> None:
    adds, copies = add2.kernels("add2*"), add2.copies("H2D")
    assert (adds.count, adds.total_ns, adds.median_ns) == (22, 110_430, 4992)
    assert (copies.count, copies.total_ns, copies.total_bytes) == (3, 972_665, 12_582_912)
    assert add2.copies("*").count == 7
    assert (add2.launches.count, add2.calls("cudaLaunchKernel").count) == (44, 44)
    assert add2.calls("cuda*Synchronize").count == 51
    rows = add2.report("cuda_gpu_kern_sum").frame
    assert rows["instances"].sum() == add2.kernels().count == 44
    assert repr(adds) == "<22 kernels named 'add2*': total 110 µs, median 4.99 µs>"
    assert repr(add2.copies("D2H")).endswith("16.8 MB>")


@pytest.mark.parametrize("pattern", ["gemm", "gemm*", GEMM, "void gemm*", "*float, ?>*"])
def test_the_names_of_a_kernel(tmp_path: Path, pattern: str) -> None:
    rows = (
        kernel(GEMM, 10, 30, 1),
        call(LAUNCH, 0, 5, 1),
        kernel("other", 40, 50, 2),
        call(LAUNCH, 30, 35, 2),
    )
    assert profiled.kernels(runs(tmp_path, rows), pattern).total_ns == 20


def test_medians_of_runs_and_counts_that_differ(tmp_path: Path) -> None:
    first = (kernel("a", 0, 10, 1), kernel("a", 20, 40, 2))
    second = (kernel("a", 0, 30, 1), kernel("a", 40, 80, 2))
    third = (kernel("a", 0, 1, 1), kernel("b", 5, 6, 2))
    two = profiled.kernels(runs(tmp_path, first, second), "a")
    assert (two.count, two.total_ns, two.median_ns) == (2, 50, 25)
    three = profiled.kernels(runs(tmp_path / "more", first, second, third), "a")
    assert three.counts == (2, 2, 1)
    assert "2 / 1 kernels" in repr(three)
    with pytest.raises(UsageError, match="different numbers of kernels named 'a': 2, 2, 1"):
        _ = three.count


def test_no_match_is_a_count_and_no_time(tmp_path: Path) -> None:
    rows = (kernel(GEMM, 10, 30, 1), call(LAUNCH, 0, 5, 1))
    none = profiled.kernels(runs(tmp_path, rows), "gem")
    assert none.count == 0
    assert repr(none).startswith("<0 kernels named 'gem': kernels recorded: ")
    for figure in ("total_ns", "median_ns"):
        with pytest.raises(NotInCapture, match="no kernels named 'gem'"):
            getattr(none, figure)


def test_copies_by_kind(tmp_path: Path) -> None:
    rows = (memcpy(1, 0, 10, 100), memcpy(2, 20, 50, 7), memcpy(8, 60, 65, 1), memcpy(11, 70, 75, 4096))
    counts = {
        pattern: profiled.copies(runs(tmp_path / str(number), rows), pattern).count
        for number, pattern in enumerate(("H2D", "Host-to-Device", "?2D", "UM *", "D2D", "P2P"))
    }
    assert counts == {"H2D": 1, "Host-to-Device": 1, "?2D": 2, "UM *": 1, "D2D": 1, "P2P": 0}
    none = profiled.copies(runs(tmp_path / "none", rows), "P2P")
    assert (none.total_ns, none.total_bytes) == (0, 0)
    with pytest.raises(UsageError, match="no kind of copy matches 'H2G'"):
        profiled.copies(runs(tmp_path / "wrong", rows), "H2G")


def test_what_was_not_recorded_is_no_zero(tmp_path: Path) -> None:
    whole_graph = (graph(10, 20, 1), call("cudaGraphLaunch", 0, 5, 1))
    for count in (profiled.kernels, profiled.copies):
        with pytest.raises(NotInCapture, match="graphs='node'"):
            count(runs(tmp_path / count.__name__, whole_graph), "*")
    assert profiled.launches(runs(tmp_path / "launches", whole_graph)).count == 1
    lossy = (kernel("a", 0, 10, 1), diagnostic("Not all CUDA events might have been collected."))
    with pytest.raises(CaptureError, match="not complete"):
        profiled.kernels(runs(tmp_path / "lossy", lossy), "a")


def test_a_program_without_gpu_work_says_why(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    profile = profile_of(request, run_folder("nvtx/host", tmp_path))
    assert profile.kernels().count == 0
    assert ": " in repr(profile.kernels())


def test_a_capture_without_cuda_is_refused(add2: Profile) -> None:
    host = open_capture(SHIPPED / "add2" / "both").select(time="0/1us")
    assert profiled.kernels([host], "*").count == 0
    with pytest.raises(UsageError, match="kernels have no size"):
        _ = add2.kernels().total_bytes
