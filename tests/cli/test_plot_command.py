"""``nsyswrap plot``: which files it writes, what it says, and how it ends."""

import sys
from pathlib import Path

import pytest
from conftest import Cli
from ran import ran
from recorded import ROOT, run_folder
from tiny_export import call, everything, nvtx, row, write

pytestmark = pytest.mark.slow

MAGIC = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
KINDS = ["copies", "histogram", "launch", "timeline", "top-kernels"]


@pytest.mark.parametrize(("form", "kinds"), [("png", KINDS), ("svg", ["copies"]), ("pdf", ["launch"])])
def test_all_that_a_capture_answers_is_drawn(cli: Cli, tmp_path: Path, form: str, kinds: list[str]) -> None:
    write(tmp_path / "a.sqlite", *everything())
    asked = [word for kind in kinds if kinds != KINDS for word in ("--kind", kind)]
    done = cli("plot", "a.sqlite", "-o", "pictures", "--format", form, *asked)
    assert (done.returncode, done.stdout) == (0, "")
    files = {path.name: path.read_bytes() for path in (tmp_path / "pictures").iterdir()}
    assert sorted(files) == [f"{kind}.{form}" for kind in kinds]
    assert all(content.startswith(MAGIC[form]) for content in files.values())
    assert [line for line in done.stderr.splitlines() if not line.startswith("wrote pictures/")] == []


def test_what_cannot_be_drawn_is_a_line_and_the_rest_is_drawn(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "a.sqlite", call("cudaMalloc", 0, 10), nvtx("step", 0, 20))
    done = cli("plot", "a.sqlite", "-o", ".")
    assert done.returncode == 0
    said = done.stderr.splitlines()
    assert "wrote timeline.png" in said
    refused = [line for line in said if line.startswith("nsyswrap: no ")]
    assert [line.split()[2] for line in refused] == ["top-kernels:", "histogram:", "launch:", "copies:"]
    assert all("--trace cuda,nvtx" in line for line in refused)
    assert [path.name for path in tmp_path.glob("*.png")] == ["timeline.png"]


def test_nothing_to_draw_is_an_error(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "a.sqlite", row("TARGET_INFO_GPU", id=0, name="GPU"))
    done = cli("plot", "a.sqlite", "-o", "pictures")
    assert done.returncode == 65
    assert done.stderr.splitlines()[-1] == "nsyswrap: nothing to draw in a.sqlite"
    assert not (tmp_path / "pictures").exists()


def test_the_folder_has_the_name_of_the_capture(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "a.sqlite", *everything())
    write(tmp_path / "b.sqlite", *everything())
    asked = ("plot", "--kind", "launch", "a.sqlite")
    assert cli(*asked).stderr == "wrote nsyswrap-plots/a/launch.png\n"
    assert cli(*asked, "b.sqlite").stderr == "wrote nsyswrap-plots/a-and-1-more/launch.png\n"
    written = (tmp_path / "nsyswrap-plots/a/launch.png").stat().st_mtime_ns
    again = cli(*asked)
    assert again.returncode == 73
    assert again.stderr == (
        "nsyswrap: nsyswrap-plots/a/launch.png already exists\n"
        "  use --force to replace it, or another name with -o\n"
    )
    assert (tmp_path / "nsyswrap-plots/a/launch.png").stat().st_mtime_ns == written
    assert cli(*asked, "--force").returncode == 0
    assert (tmp_path / "nsyswrap-plots/a/launch.png").stat().st_mtime_ns > written


def test_the_ending_of_the_file_is_the_format(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "a.sqlite", *everything())
    assert cli("plot", "a.sqlite", "--kind", "launch", "-o", "a.SVG").stderr == "wrote a.SVG\n"
    assert (tmp_path / "a.SVG").read_bytes().startswith(MAGIC["svg"])
    for options, told in (
        (("-o", "b.png"), "b.png is one picture\n  name its kind with --kind"),
        (("-o", "b.png", "--kind", "launch", "--kind", "copies"), "b.png is one picture"),
        (("-o", "b.png", "--kind", "launch", "--format", "svg"), "cannot be used with --format svg"),
        (("-o", "b c.csv"), "\n  nsyswrap report a.sqlite -r NAME -o 'b c.csv' writes one"),
        (("-o", "b.html"), "write .html files: b.html\n  nsyswrap view a.sqlite -o b.html writes one"),
    ):
        done = cli("plot", "a.sqlite", *options)
        assert (done.returncode, told in done.stderr) == (2, True), done.stderr
    assert not list(tmp_path.glob("b.*"))


def test_files_are_overwritten_with_force_alone(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "a.sqlite", *everything())
    (tmp_path / "launch.png").write_bytes(b"mine")
    done = cli("plot", "a.sqlite", "-o", ".")
    assert done.returncode == 73
    assert "launch.png already exists" in done.stderr
    assert "--force" in done.stderr
    assert [path.name for path in tmp_path.glob("*.png")] == ["launch.png"]
    assert (tmp_path / "launch.png").read_bytes() == b"mine"
    assert cli("plot", "a.sqlite", "-o", ".", "--kind", "copies").returncode == 0
    assert cli("plot", "a.sqlite", "-o", ".", "--kind", "launch", "--force").returncode == 0
    assert (tmp_path / "launch.png").read_bytes().startswith(MAGIC["png"])


def test_of_several_captures_a_bad_one_is_said_and_the_others_are_drawn(cli: Cli, tmp_path: Path) -> None:
    folders = [run_folder(name, tmp_path / "runs") for name in ("gelu/torch", "copies/pinned")]
    done = cli("plot", *folders, "nowhere", "-o", "pictures", "--kind", "launch", "--kind", "copies")
    assert done.returncode == 65
    assert "nowhere not found" in done.stderr
    assert f"no launch: launch_overhead: {folders[1]} holds no kernels" in done.stderr
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == ["copies.png", "launch.png"]


def test_a_part_of_a_capture_can_be_drawn(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "a.sqlite", *everything())
    whole, part = (
        cli("plot", "a.sqlite", "-o", folder, "--kind", "timeline", *options)
        for folder, options in (("whole", ()), ("part", ("--time", "0s/1us")))
    )
    assert (whole.returncode, part.returncode) == (0, 0)
    assert (tmp_path / "whole/timeline.png").read_bytes() != (tmp_path / "part/timeline.png").read_bytes()


def test_there_is_room_for_a_dozen_captures(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "a.sqlite", *everything())
    done = cli("plot", *(["a.sqlite"] * 13), "-o", ".")
    assert done.returncode == 2
    assert "at most 12 captures" in done.stderr
    assert cli("plot", *(["a.sqlite"] * 12), "-o", ".", "--kind", "copies").returncode == 0


def test_no_window_library_is_loaded(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sqlite", *everything())
    code = (
        "import sys, nsyswrap\n"
        f"for kind in {KINDS}: nsyswrap.open_capture({str(path)!r}).plot(kind)._repr_png_()\n"
        "print('matplotlib.pyplot' in sys.modules, 'matplotlib.figure' in sys.modules)"
    )
    done = ran([sys.executable, "-c", code], cwd=ROOT, check=True)
    assert done.stdout == "False True\n"
