"""``nsyswrap view``: where the page goes, what is taken for a capture, and what is not overwritten."""

import shutil
from pathlib import Path

import pytest
from conftest import Cli
from recorded import SHIPPED
from tiny_export import call, kernel, nvtx, write

pytestmark = pytest.mark.slow

ADD2 = SHIPPED / "add2"


def small(path: Path) -> Path:
    return write(path, call("cudaLaunchKernel", 0, 10, 1), kernel("k", 20, 30, 1))


def test_the_page_is_named_after_the_capture(tmp_path: Path, cli: Cli) -> None:
    done = cli("view", ADD2 / "both")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "wrote both.html\n"
    assert "<title>both · nsyswrap</title>" in (tmp_path / "both.html").read_text(encoding="utf-8")


def test_a_name_where_file_names_are_not_utf8(tmp_path: Path, cli: Cli) -> None:
    write(tmp_path / "kö.sqlite", kernel("k", 0, 5))
    done = cli("view", "kö.sqlite", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert (done.returncode, done.stderr) == (0, "wrote k\\xc3\\xb6.html\n")
    assert (tmp_path / "kö.html").is_file()


def test_a_page_replaces_a_page_and_what_is_named(tmp_path: Path, cli: Cli) -> None:
    export = small(tmp_path / "x.sqlite")
    (tmp_path / "x.html").write_text("mine")
    done = cli("view", export)
    assert done.returncode == 73
    assert done.stderr == (
        "nsyswrap: x.html already exists\n  use --force to replace it, or name another file with -o\n"
    )
    assert (tmp_path / "x.html").read_text() == "mine"
    for options in (("--force",), (), ("-o", "x.html")):  # then it is a page; a named file is replaced, too
        assert cli("view", export, *options).returncode == 0
        assert "nsyswrap" in (tmp_path / "x.html").read_text()
        if not options:
            (tmp_path / "x.html").write_text("mine")
    done = cli("view", export, "-o", "x.pdf")
    assert done.stderr == (
        "nsyswrap: this command does not write .pdf files: x.pdf\n"
        f"  nsyswrap plot {export} --kind KIND -o x.pdf writes one\n"
    )
    assert (done.returncode, (tmp_path / "x.pdf").exists()) == (2, False)


def test_a_folder_stands_for_all_captures_in_it(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "runs" / "one").mkdir(parents=True)
    small(tmp_path / "runs" / "one" / "report.sqlite")
    small(tmp_path / "runs" / "two.sqlite")
    assert cli("view", "runs").stderr == "wrote runs.html\n"
    page = (tmp_path / "runs.html").read_text(encoding="utf-8")
    assert "<title>one · two · nsyswrap</title>" in page
    assert page.count('<article class="timeline"') == 2


def test_a_run_with_its_report_and_its_export_is_one_capture(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "runs" / "deep").mkdir(parents=True)
    small(tmp_path / "runs" / "deep" / "x.sqlite")
    (tmp_path / "runs" / "deep" / "x.nsys-rep").write_text("not looked at")
    assert cli("view", "runs").stderr == "wrote x.html\n"


def test_a_folder_of_too_many_captures(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "runs").mkdir()
    for i in range(41):
        (tmp_path / "runs" / f"{i}.sqlite").touch()
    done = cli("view", "runs")
    assert done.returncode == 2
    assert "runs holds 41 captures, and a page shows at most 40" in done.stderr


def test_without_a_name_the_newest_run_is_shown(tmp_path: Path, cli: Cli) -> None:
    run = tmp_path / "nsyswrap-runs" / "mine"
    run.mkdir(parents=True)
    small(run / "report.sqlite")
    (run / "status.json").write_text("{}")
    newest = "nsyswrap: newest run: nsyswrap-runs/mine (just now)\n"
    assert cli("view").stderr == f"{newest}wrote mine.html\n"


def test_of_several_a_bad_one_is_said_and_the_others_are_shown(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "bad.sqlite").write_text("no database")
    done = cli("view", small(tmp_path / "x.sqlite"), "bad.sqlite")
    assert done.returncode == 65
    assert "bad.sqlite" in done.stderr
    assert done.stderr.endswith("wrote x.html\n")


def test_what_is_no_capture_writes_nothing(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "empty").mkdir()
    for name, said in (("empty", "no capture in empty"), ("none.sqlite", "none.sqlite")):
        done = cli("view", name)
        assert done.returncode == 65
        assert said in done.stderr
    assert list(tmp_path.glob("*.html")) == []


def test_where_nothing_ran_on_a_gpu_the_causes_are_named(tmp_path: Path, cli: Cli) -> None:
    done = cli("view", write(tmp_path / "x.sqlite", nvtx("step", 0, 5)))
    assert done.returncode == 0
    assert "No GPU work was recorded" in done.stderr


def test_a_part_is_shown_where_one_is_chosen(tmp_path: Path, cli: Cli) -> None:
    rows = [kernel(f"k{i}", 1000 * i, 1000 * i + 500, i) for i in range(9)]
    assert cli("view", write(tmp_path / "x.sqlite", *rows), "--time", "/2500ns").returncode == 0
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "<code>k2</code>" in page
    assert "<code>k3</code>" not in page


def test_the_browser_is_opened_where_that_is_asked_for(tmp_path: Path, cli: Cli) -> None:
    done = cli("view", small(tmp_path / "x.sqlite"), "--open", BROWSER=f"{shutil.which('echo')} opened %s")
    assert done.stdout == f"opened {(tmp_path / 'x.html').as_uri()}\n"


def test_a_page_that_cannot_be_written(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "file").write_text("")
    done = cli("view", small(tmp_path / "x.sqlite"), "-o", "file/x.html")
    assert done.returncode == 73
    assert "cannot write file/x.html" in done.stderr
