"""A folder stands for the captures in it, in ``report``, ``view``, ``plot`` and ``redact --check``."""

import json
import re
from pathlib import Path

import pytest
from batch_folders import batch_of, captured, ended, planned, rows_of
from conftest import Cli
from rank_exports import Step, run_folder, steps
from report_tables import read_csv
from tiny_export import call, kernel, row, write

from nsyswrap.base.run_folder import BATCH, EXPORT, REPORT, RUN

pytestmark = pytest.mark.slow

KERNELS = "cuda_gpu_kern_sum"


def small(path: Path, ns: int = 10) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return write(path, call("cudaLaunchKernel", 0, 5, 1), kernel("k", 20, 20 + ns, 1))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A run folder, a loose export with its report beside it, and an export one folder deeper."""
    small(tmp_path / "runs" / "b-run" / EXPORT, 20)
    (tmp_path / "runs" / "b-run" / REPORT).write_text("not read")
    small(tmp_path / "runs" / "a.sqlite", 10)
    (tmp_path / "runs" / "a.nsys-rep").write_text("not read")
    small(tmp_path / "runs" / "deep" / "c.sqlite", 30)
    return tmp_path / "runs"


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    """The batch of the plan 'sizes' in a folder of another name: two runs, one that failed, one left out."""
    folder = tmp_path / "out"
    for number, ns in ((1, 10), (2, 20), (4, 40)):
        captured(planned(folder, number, {"n": number}), ns)
    ended(planned(folder, 3, {"n": 3}), "nsys_failed")
    batch_of(folder)
    facts = json.loads((folder / BATCH).read_text())
    facts["runs"][3]["active"] = False
    (folder / BATCH).write_text(json.dumps({**facts, "name": "sizes"}))
    return folder


@pytest.mark.usefixtures("runs")
def test_a_screen_for_each_capture(cli: Cli) -> None:
    done = cli("report", "runs")
    assert done.returncode == 0
    assert re.findall("^== (.*)$", done.stdout, re.MULTILINE) == [
        "runs/a.sqlite",
        "runs/b-run",
        "runs/deep/c.sqlite",
    ]
    assert "not shown" not in done.stderr
    assert done.stdout.startswith("== ")
    assert done.stdout.count("\n\n== ") == 2


def test_the_captures_without_a_screen_are_named(cli: Cli, tmp_path: Path) -> None:
    for number in range(1, 8):
        small(tmp_path / "many" / f"{number}.sqlite")
    done = cli("report", "many")
    assert done.returncode == 0
    assert re.findall(r"^== many/(\d)", done.stdout, re.MULTILINE) == list("12345")
    assert done.stderr == (
        "nsyswrap: not shown: many/6.sqlite, many/7.sqlite\n"
        "  name those to show, or compare all: nsyswrap collect many\n"
    )
    named = cli("report", *(f"many/{number}.sqlite" for number in range(1, 8)))
    assert len(re.findall("^== ", named.stdout, re.MULTILINE)) == 7  # all that are named are shown


@pytest.mark.usefixtures("runs")
def test_reports_are_of_all_captures(cli: Cli) -> None:
    done = cli("report", "runs", "-r", KERNELS, "--format", "csv")
    assert {(line["Capture"], line["Total Time (ns)"]) for line in read_csv(done.stdout)} == {
        ("a", "10"),
        ("b-run", "20"),
        ("c", "30"),
    }


@pytest.mark.usefixtures("runs")
def test_what_each_capture_answers(cli: Cli) -> None:
    done = cli("report", "runs", "--list")
    assert done.stdout.count("Reports with data in ") == 3


@pytest.mark.usefixtures("batch")
def test_a_batch_without_the_runs_that_a_plan_left_out(cli: Cli) -> None:
    done = cli("report", "out", "-r", KERNELS, "--format", "csv")
    assert sorted(line["Total Time (ns)"] for line in read_csv(done.stdout)) == ["10", "20"]
    assert "nsyswrap: runs without a capture: out/runs/00003\n" in done.stderr


def test_what_a_killed_run_left_is_no_capture(cli: Cli, runs: Path) -> None:
    small(runs / "killed" / ".recording-x" / EXPORT, 40)
    (runs / "killed" / RUN).write_text("{}")
    done = cli("report", "runs", "-r", KERNELS, "--format", "csv")
    assert {line["Capture"] for line in read_csv(done.stdout)} == {"a", "b-run", "c"}
    assert done.stderr == "nsyswrap: runs without a capture: runs/killed\n"


@pytest.mark.usefixtures("batch")
def test_a_batch_is_named_by_its_plan(cli: Cli, tmp_path: Path) -> None:
    assert cli("view", "out").stderr.endswith("wrote sizes.html\n")
    assert "<title>sizes · nsyswrap</title>" in (tmp_path / "sizes.html").read_text(encoding="utf-8")
    assert "wrote nsyswrap-plots/sizes/top-kernels.png\n" in cli("plot", "out").stderr
    captured(planned(tmp_path / "other", 1, {"n": 1}), 5)
    made = [{"number": 1, "folder": "00001", "key": "1", "active": True}]
    (tmp_path / "other" / BATCH).write_text(json.dumps({"id": "y", "name": "sizes again", "runs": made}))
    assert cli("collect", "out", "other", "-o", "all").returncode == 65  # the spec.json in other is altered
    assert {line["batch"] for line in rows_of(tmp_path / "all" / "results.csv")} == {"sizes", "sizes again"}


def test_the_folder_of_a_launch_compares_its_ranks(cli: Cli, tmp_path: Path) -> None:
    for rank in range(2):
        run_folder(tmp_path / "job", rank, 2, *steps(Step(100, 400)))
    done = cli("report", "job")
    assert done.returncode == 0
    assert "rank_waiting" in done.stdout
    assert done.stderr.startswith(
        "nsyswrap: job holds ranks of a launch: --by rank is assumed\n"
        "  nsyswrap report job/rank-0 shows one rank\n"
    )


@pytest.mark.usefixtures("runs")
def test_the_page_and_the_plots_have_the_same_captures(cli: Cli, tmp_path: Path) -> None:
    assert cli("view", "runs").stderr == "wrote runs.html\n"
    title = re.findall("<title>(.*)</title>", (tmp_path / "runs.html").read_text(encoding="utf-8"))
    assert title[0] == "a · b-run · c · nsyswrap"
    assert cli("plot", "runs", "--kind", "timeline").stderr == "wrote nsyswrap-plots/runs/timeline.png\n"


def test_too_many_for_one_plot(cli: Cli, tmp_path: Path) -> None:
    for number in range(13):
        small(tmp_path / "many" / f"{number}.sqlite")
    done = cli("plot", "many")
    assert (done.returncode, done.stdout) == (2, "")
    assert "a plot shows at most 12 captures, not 13" in done.stderr


@pytest.mark.parametrize("command", [("report",), ("view",), ("plot",)])
def test_a_folder_without_captures(cli: Cli, tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "empty").mkdir()
    done = cli(*command, "empty")
    assert (done.returncode, done.stdout) == (65, "")
    assert done.stderr == "nsyswrap: no capture in empty\n  give a run folder, a .sqlite or a .nsys-rep\n"


@pytest.mark.parametrize("command", [("report",), ("report", "-r", "cuda_gpu_kern_sum"), ("view",)])
def test_a_folder_without_captures_beside_a_capture(
    cli: Cli, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "empty").mkdir()
    done = cli(*command, small(tmp_path / "x.sqlite"), "empty")
    assert done.returncode == 65
    assert "nsyswrap: empty is not a run folder: report.sqlite is missing\n" in done.stderr
    assert "wrote x.html" in done.stderr if command == ("view",) else done.stdout


def test_a_timeline_of_the_ranks_in_a_folder(cli: Cli, tmp_path: Path) -> None:
    for name in ("job/rank-0", "job/rank-1", "runs/a", "runs/b"):
        (tmp_path / name).mkdir(parents=True)
        started = row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=5)
        write(tmp_path / name / EXPORT, started, kernel("k", 0, 9))
    done = cli("export", "job", "--perfetto", "job.pftrace")
    assert done.stderr.startswith("wrote job.pftrace: 2 kernels\n")
    for folder, output, message in (
        ("job", "--parquet", "job holds 2 captures\n  nsyswrap export job/rank-0 --parquet DIR\n"),
        (
            "runs",
            "--perfetto",
            "runs holds 2 captures, not ranks of one launch\n  nsyswrap export runs/a runs/b ...\n",
        ),
    ):
        done = cli("export", folder, output, "new")
        assert (done.returncode, done.stderr) == (2, f"nsyswrap: {message}")


def test_all_exports_in_a_folder_are_checked_for_secrets(cli: Cli, runs: Path) -> None:
    (runs / "a.nsys-rep").rename(runs / "a.NSYS-REP")
    (runs / "link").symlink_to(runs / "deep", target_is_directory=True)
    done = cli("redact", "--check", "runs")
    assert (done.returncode, done.stdout) == (
        1,
        "runs is a folder of captures: 3 exports checked; other files not checked\n",
    )
    assert done.stderr == (
        "nsyswrap: values of environment variables not searched for in "
        "runs/a.sqlite, runs/b-run/report.sqlite, runs/deep/c.sqlite:\n"
        "  the environment is not in the file, so its values are not known; a range name can hold one\n"
        "nsyswrap: not checked, as these are links to folders: runs/link\n"
        "nsyswrap: do not share runs/a.NSYS-REP, runs/b-run/report.nsys-rep\n"
        "  a .nsys-rep cannot be redacted, and it can hold the environment\n"
        "nsyswrap: runs holds a .nsys-rep\n  remove it before you share the folder\n"
    )
    for recording in ("a.NSYS-REP", "b-run/report.nsys-rep"):
        (runs / recording).unlink()
    done = cli("redact", "--check", "runs")
    assert (done.returncode, done.stdout.splitlines()[1]) == (0, "nothing left to remove")
    system = row("TARGET_INFO_SYSTEM_ENV", name="Hostname", nameEnum=1, value="planted-host")
    write(runs / "secret.sqlite", kernel("k", 0, 5), system)
    done = cli("redact", "--check", "runs")
    assert done.returncode == 1
    assert "\nruns/secret.sqlite: user, host and paths: 1: TARGET_INFO_SYSTEM_ENV.Hostname\n" in done.stdout
    assert "planted" not in done.stdout + done.stderr
    assert "nsyswrap: 1 of 4 exports would leak\n  nsyswrap redact runs/secret.sqlite -o OUT\n" in done.stderr


@pytest.mark.usefixtures("runs", "batch")
def test_what_is_checked_is_named(cli: Cli, tmp_path: Path) -> None:
    assert cli("redact", "--check", "runs/b-run").stdout.startswith(
        "runs/b-run is a run folder: 1 export checked"
    )
    assert cli("redact", "--check", "out").stdout.startswith(
        "out is the folder of a batch: 3 exports checked"
    )
    (tmp_path / "empty").mkdir()
    done = cli("redact", "--check", "empty")
    assert (done.returncode, done.stdout) == (65, "")
    assert done.stderr.startswith("nsyswrap: no .sqlite in empty\n")


@pytest.mark.usefixtures("runs")
def test_a_folder_is_redacted_one_capture_at_a_time(cli: Cli, tmp_path: Path) -> None:
    done = cli("redact", "runs", "-o", "out.sqlite")
    assert (done.returncode, done.stdout) == (2, "")
    assert "runs is not a capture, it holds runs/a.sqlite, runs/b-run, runs/deep/c.sqlite" in done.stderr
    assert "nsyswrap redact runs/a.sqlite -o OUT" in done.stderr
    assert not (tmp_path / "out.sqlite").exists()


@pytest.fixture
def half_named(tmp_path: Path) -> Path:
    """A folder of 12 captures of which two files are named as ranks."""
    for number in range(10):
        small(tmp_path / "in" / f"c{number}.sqlite", 10 + number)
    for number in range(2):
        small(tmp_path / "in" / f"rank{number}.sqlite", 100 + number)
    return tmp_path / "in"


SIDE_BY_SIDE = "nsyswrap: in: shown side by side, not as ranks: 2 of 12 captures name a rank\n"


@pytest.mark.usefixtures("half_named")
def test_ranks_are_taken_only_if_all_captures_are_ranks(cli: Cli, tmp_path: Path) -> None:
    done = cli("report", "in", "-r", KERNELS, "--format", "csv")
    assert len(read_csv(done.stdout)) == 12
    assert done.stderr == SIDE_BY_SIDE
    done = cli("report", "in")
    assert done.stdout.count("\n== ") == 4
    assert "in/c9.sqlite, in/rank0.sqlite, in/rank1.sqlite" in done.stderr
    assert cli("report", "in", "--csv", "out", "-r", KERNELS).returncode == 0
    assert len(read_csv((tmp_path / "out" / f"{KERNELS}.csv").read_text())) == 12
    done = cli("view", "in", "-o", "page.html")
    assert done.stderr == f"{SIDE_BY_SIDE}wrote page.html\n"
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(f"<h3>{name}" in page for name in ("c0", "c9", "rank0", "rank1"))
    done = cli("export", "in", "--perfetto", "x")
    assert done.returncode == 2
    assert "in holds 12 captures, not ranks of one launch" in done.stderr
    assert cli("plot", "in", "--kind", "top-kernels", "--format", "svg", "-o", "plots").returncode == 0
    assert "c9" in (tmp_path / "plots" / "top-kernels.svg").read_text(encoding="utf-8")
    assert cli("collect", "in", "-o", "all").returncode == 0
    assert len(rows_of(tmp_path / "all" / "results.csv")) == 12
    done = cli("report", "in", "--by", "rank", "-r", KERNELS, "--format", "csv")
    assert len(read_csv(done.stdout)) == 12  # as it was asked for


def test_captures_of_two_launches_are_shown_side_by_side(cli: Cli, tmp_path: Path) -> None:
    for name in ("a.rank0", "a.rank1", "b.rank0", "b.rank1"):
        small(tmp_path / "in" / f"{name}.sqlite")
    done = cli("report", "in", "-r", KERNELS, "--format", "csv")
    assert [line["Capture"] for line in read_csv(done.stdout)] == ["a.rank0", "a.rank1", "b.rank0", "b.rank1"]
    assert "shown side by side, not as ranks: in/a.rank0.sqlite and in/b.rank0.sqlite: both" in done.stderr
    assert cli("report", "in", "--by", "rank", "-r", KERNELS).returncode == 2
    assert cli("report", "in/a.rank0.sqlite", "in/b.rank0.sqlite").stderr == ""  # named on purpose


def test_what_lies_beside_the_ranks_of_a_launch_is_shown(cli: Cli, tmp_path: Path) -> None:
    for rank in range(2):
        run_folder(tmp_path / "job", rank, 2, *steps(Step(100, 400)))
    small(tmp_path / "job" / "before" / "x.sqlite")
    done = cli("report", "job", "-r", KERNELS, "--format", "csv")
    assert {line["Capture"] for line in read_csv(done.stdout)} == {"rank-0", "rank-1", "x"}
    assert "2 of 3 captures name a rank" in done.stderr


def test_a_run_that_left_captures_named_by_rank_and_others(cli: Cli, tmp_path: Path) -> None:
    folder = ended(planned(tmp_path / "b", 1, {"n": 1}), "done")
    for ns, name in enumerate(("x.rank0", "x.rank1", "y"), 10):
        small(folder / f"{name}.sqlite", ns)
    done = cli("report", folder, "-r", KERNELS, "--format", "csv")
    assert [line["Capture"] for line in read_csv(done.stdout)] == ["x.rank0", "x.rank1", "y"]
    cli("collect", batch_of(tmp_path / "b"))
    assert [row["kernels"] for row in rows_of(tmp_path / "b" / "results.csv")] == ["1", "1", "1"]


def test_names_with_numbers_are_in_the_order_of_the_numbers(cli: Cli, tmp_path: Path) -> None:
    numbers = [0, 1, 2, 9, 10, 11, 100]
    for number in numbers:
        small(tmp_path / "in" / f"report.{number}.sqlite", 10 + number)
        small(tmp_path / "deep" / f"job{number}" / "x.sqlite")
    names = [f"report.{number}" for number in numbers]
    for words in ((), ("--by", "rank")):
        done = cli("report", "in", "-r", KERNELS, "--format", "csv", *words)
        assert [next(iter(line.values())) for line in read_csv(done.stdout)] == names
    done = cli("report", "deep", "-r", KERNELS, "--format", "csv")
    assert [line["Capture"] for line in read_csv(done.stdout)] == [f"job{number}" for number in numbers]
    cli("view", "in", "-o", "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert re.findall("<title>(.*) · nsyswrap</title>", page) == [f"{', '.join(names[:3])} and 4 more"]
    for given in ("in", "in/*.sqlite"):
        cli("collect", given, "-o", "all")
        assert [row["run"] for row in rows_of(tmp_path / "all" / "results.csv")] == names
    shuffled = [f"in/{name}.sqlite" for name in sorted(names)]  # as a shell lists them
    cli("report", *shuffled, "--by", "rank", "-r", KERNELS, "--format", "csv", "-o", "x.csv")
    assert [line["Rank"] for line in read_csv((tmp_path / "x.csv").read_text())] == names


def test_what_a_failed_import_left_is_named(cli: Cli, tmp_path: Path) -> None:
    small(tmp_path / "in" / "a.sqlite")
    for name in ("a.qdstrm", "b.nsys-rep", "b.qdstrm", "c.qdstrm"):
        (tmp_path / "in" / name).write_text("no recording")
    done = cli("report", "in", "-r", KERNELS, "--format", "csv", NSYSWRAP_NSYS="/nowhere/nsys")
    assert done.returncode == 69
    assert re.findall(r"in/(\S+): ", done.stderr) == ["b.nsys-rep", "c.qdstrm"]


def test_links_to_folders_elsewhere_are_named(cli: Cli, tmp_path: Path) -> None:
    small(tmp_path / "in" / "run" / "x.sqlite")
    small(tmp_path / "elsewhere" / "y.sqlite")
    (tmp_path / "in" / "latest").symlink_to("run", target_is_directory=True)
    (tmp_path / "in" / "other").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    text = "nsyswrap: not searched, as these are links to folders: in/other\n"
    assert cli("report", "in", "-r", KERNELS, "--format", "csv").stderr == text
    assert cli("collect", "in", "-o", "all").stderr.startswith(text)
    assert text in cli("compare", "in", "elsewhere", "--anyway").stderr


def test_a_batch_that_cannot_be_read_hides_no_other_runs(cli: Cli, tmp_path: Path) -> None:
    small(tmp_path / "in" / "x.sqlite")
    captured(planned(tmp_path / "in" / "broken", 1, {"n": 1}), 10)
    batch_of(tmp_path / "in" / "broken")
    (tmp_path / "in" / "broken" / BATCH).write_text("{")
    for command in (("collect", "in", "-o", "all"), ("report", "in", "-r", KERNELS)):
        done = cli(*command)
        assert done.returncode == 65
        assert "in/broken" in done.stderr
        assert done.stdout
    done = cli("collect", "in/broken", "-o", "all")
    assert "name the run folders" in done.stderr


def test_more_captures_than_files_can_be_open_are_for_collect(cli: Cli, tmp_path: Path) -> None:
    first = small(tmp_path / "many" / "0.sqlite")
    for number in range(1, 501):
        (tmp_path / "many" / f"{number}.sqlite").hardlink_to(first)
    done = cli("report", "many", "-r", KERNELS)
    assert (done.returncode, done.stdout) == (2, "")
    assert "many holds 501 captures, and report reads at most 500" in done.stderr
    assert "nsyswrap collect many writes the tables of all" in done.stderr
