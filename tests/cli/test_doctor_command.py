"""`nsyswrap doctor` as a command: its screen, its JSON, its exit code and its probe."""

import errno
import json
import lzma
import os
import re
import shlex
from pathlib import Path
from typing import Any

import fake_cuda
import pytest
from click.testing import CliRunner
from conftest import Cli
from gpus_here import NO_GPU, needs_gpu
from jsonschema import Draft202012Validator
from recorded import ROOT
from tiny_export import kernel, memcpy, opened, write

from nsyswrap.api import open_capture
from nsyswrap.api import probe as trial
from nsyswrap.api.probe import gpu_work
from nsyswrap.base.check import Check
from nsyswrap.base.nsys import find
from nsyswrap.cli import cli as nsyswrap
from nsyswrap.cli.doctor import as_dict, screen
from nsyswrap.record.doctor.programs import probe

BRIEF = json.loads((ROOT / "docs" / "brief.schema.json").read_text(encoding="utf-8"))
SCHEMA = json.loads((ROOT / "docs" / "doctor.schema.json").read_text(encoding="utf-8"))
BARE = {"PATH": "/no/such/folder", "NSYSWRAP_NSYS": ""}
GROUPS = {
    "nsys": [
        Check("ok", "nsys", "2025.3.1.90 at /usr/local/cuda/bin/nsys, the first that works"),
        Check("note", "another nsys", "2022.4.2 at /usr/bin/nsys, not used"),
    ],
    "machine": [
        Check("problem", "TMPDIR", "only 0.0 GB free at /tmp; nsys writes there", "export TMPDIR=/x && true"),
        Check("unknown", "MIG", "no GPU"),
    ],
}
SCREEN = """\
nsys
  ok           nsys          2025.3.1.90 at /usr/local/cuda/bin/nsys, the first
               that works
  note         another nsys  2022.4.2 at /usr/bin/nsys, not used

machine
  problem      TMPDIR        only 0.0 GB free at /tmp; nsys writes there
    next: export TMPDIR=/x &&
          true
  not checked  MIG           no GPU

1 problem: TMPDIR.
"""


def data(stdout: str) -> dict[str, Any]:
    """Return the JSON of doctor, which fits its schema."""
    read: dict[str, Any] = json.loads(stdout)
    Draft202012Validator(SCHEMA).validate(read)
    return read


def levels(stdout: str, group: str) -> dict[str, str]:
    return {check["subject"]: check["level"] for check in data(stdout)["checks"] if check["group"] == group}


def test_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert "\n".join(screen(GROUPS)) + "\n" == SCREEN


def test_what_explains_figures_is_a_note() -> None:
    groups = {"capture": [Check("info", "messages", "nsys started CUDA in 2 processes")]}
    assert "  note         messages  nsys started CUDA in 2 processes" in list(screen(groups))
    assert [check["level"] for check in data(json.dumps(as_dict(groups)))["checks"]] == ["note"]


@pytest.mark.parametrize(
    ("groups", "conclusion"),
    [
        (("nsys",), "No problem found; `nsyswrap doctor --probe` tries a recording."),
        (("nsys", "probe"), "Ready to record."),
        (("capture",), "Ready to analyze."),
    ],
)
def test_only_a_recording_shows_that_the_machine_is_ready(groups: tuple[str, ...], conclusion: str) -> None:
    sound, untried = Check("ok", "GPU work", "20 of 20"), Check("unknown", "GPU work", "no GPU")
    assert list(screen({group: [sound] for group in groups}))[-1] == conclusion
    if "probe" in groups:
        assert list(screen({group: [sound, untried] for group in groups}))[-1] == "No problem found."
        peaks = Check("unknown", "peaks", "no PyTorch")  # which a recording does not need
        assert list(screen({group: [sound, peaks] for group in groups}))[-1] == conclusion


def test_long_subjects_move_the_texts_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, first, second, *_ = screen(
        {"capture": [Check("ok", "launches without work", "none"), Check("ok", "file", "sound")]}
    )
    assert first.index("none") == second.index("sound")


def test_data_and_schema() -> None:
    made = data(json.dumps(as_dict(GROUPS)))
    assert (made["problems"], len(made["checks"])) == (1, 4)
    assert not Draft202012Validator(SCHEMA).is_valid({**made, "more": 1})


def test_without_a_gpu_it_says_what_can_be_done() -> None:
    *_, problems, advice = screen({"GPU and driver": [Check("problem", "GPU", "none found")]})
    assert problems == "1 problem: GPU."
    assert "`nsyswrap demo`" in advice


def test_this_machine(cli: Cli) -> None:
    done = cli("doctor", "--json")
    made = data(done.stdout)
    assert done.stderr == ""
    assert done.returncode == (1 if made["problems"] else 0)
    assert {check["group"] for check in made["checks"]} == {
        "nsys",
        "GPU and driver",
        "machine",
        "Python and compilers",
    }
    if NO_GPU:
        assert levels(done.stdout, "GPU and driver")["GPU"] == "problem"
        assert levels(done.stdout, "Python and compilers").get("PyTorch") != "ok"


def test_without_nsys_it_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "PLACES", ())
    done = CliRunner().invoke(nsyswrap, ["doctor"], env={"COLUMNS": "80", **BARE})
    assert done.exit_code == 1
    assert "nsys was not found" in done.stdout
    assert "    next: apt-cache search nsight-systems" in done.stdout
    assert re.search(r"(?m)^\d problems?: nsys", done.stdout)


def test_a_capture_is_checked_instead_of_the_machine(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "x.sqlite", kernel("k", 0, 10))
    done = cli("doctor", "--json", "x.sqlite")
    assert {check["group"] for check in data(done.stdout)["checks"]} == {"capture"}
    screened = cli("doctor", "x.sqlite")
    assert screened.stdout.startswith("capture\n")
    (tmp_path / "y.sqlite").write_text("not a capture")
    refused = cli("doctor", "y.sqlite")
    assert (refused.returncode, refused.stdout) == (65, "")
    assert refused.stderr.startswith("nsyswrap: y.sqlite")


@pytest.mark.usefixtures("nsys")
def test_the_probe_records_and_leaves_nothing(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    done = cli("doctor", "--probe", "--json", TMPDIR=str(tmp_path / "tmp"))
    made = levels(done.stdout, "probe")
    assert made == {"recording": "ok", "GPU work": "unknown" if NO_GPU else "ok"}
    assert list((tmp_path / "tmp").glob("nsyswrap-*")) == []
    assert "probe" not in cli("runs").stdout


@pytest.mark.usefixtures("nsys")
@pytest.mark.skipif(not NO_GPU, reason="is about a machine without a GPU")
def test_a_driver_that_nsys_cannot_use(cli: Cli, environment: dict[str, str], tmp_path: Path) -> None:
    """A stand-in for the driver computes on the CPU: the real nsys stops at it, or records no kernels."""
    driver = fake_cuda.build(tmp_path)
    (tmp_path / "torch.py").write_text("raise ImportError('seconds of imports')")
    path = os.pathsep.join((str(tmp_path), environment["PYTHONPATH"]))
    variables = {"LD_LIBRARY_PATH": str(driver), "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "0\x1b[2J"}
    done = cli("doctor", "--probe", **variables)
    assert done.returncode == 1
    assert "1 x Fake GPU (compute capability 9.0); CUDA_VISIBLE_DEVICES=0\\x1b[2J" in done.stdout
    assert re.search(r"\n  problem +(recording|GPU work) ", done.stdout)
    assert "Traceback" not in done.stderr


def test_a_probe_that_fails_names_no_removed_file(cli: Cli, tmp_path: Path, nsys: str) -> None:
    """The real nsys, behind a stand-in that prints a fault of nsys instead of recording."""
    broken = tmp_path / "nsys"
    broken.write_text(
        '#!/bin/sh\ncase "$*" in *--version|*--help) exec ' + shlex.quote(nsys) + ' "$@";; esac\n'
        "echo Cannot read the number of the device CPUs; exit 1\n"
    )
    broken.chmod(0o755)
    kept = cli("profile", "-o", tmp_path / "run", "--", "true", NSYSWRAP_NSYS=str(broken))
    cure = "mount /sys in the chroot or container"
    assert f"{cure}; output of nsys: {tmp_path / 'run' / 'nsys.log'}" in " ".join(kept.stderr.split())
    done = cli("doctor", "--probe", "--json", NSYSWRAP_NSYS=str(broken))
    [failed] = [check for check in data(done.stdout)["checks"] if check["group"] == "probe"]
    assert (done.returncode, failed["subject"], failed["cure"]) == (1, "recording", cure)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("tempfile.mkdtemp", "no folder for temporary files: No space left on device"),
        ("nsyswrap.api.runs.run", "the probe failed: [Errno 28] No space left on device"),
    ],
)
def test_a_fault_of_the_probe_is_not_one_of_its_folder(
    place: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of the system is made up at two places."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(place, fail)
    assert list(trial.probe()) == [Check("problem", "recording", text)]


def test_the_probe_where_nsys_is_missing(cli: Cli) -> None:
    done = cli("doctor", "--probe", "--json", **{**BARE, "NSYSWRAP_NSYS": "/no/such/nsys"})
    assert done.returncode == 1
    assert levels(done.stdout, "nsys")["nsys"] == "problem"
    assert levels(done.stdout, "probe") == {"recording": "unknown"}


@pytest.mark.parametrize(
    ("kernels", "level"), [(probe.ROUNDS, "ok"), (probe.ROUNDS - 1, "problem"), (0, "problem")]
)
def test_kernels_and_copies_are_compared_with_those_made(tmp_path: Path, kernels: int, level: str) -> None:
    rows = [kernel("vector_add", i, i + 1) for i in range(kernels)]
    rows += [memcpy(1, i, i + 1, 8) for i in range(probe.COPIES)]
    check = gpu_work(opened(tmp_path, *rows))
    assert check.level == level
    assert check.text == f"{kernels} of 20 kernels recorded, 60 of 60 copies recorded"


def test_a_probe_without_any_gpu_work_names_the_cause(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    path.write_bytes(lzma.decompress((ROOT / "tests/data/silent/sub1.sqlite.xz").read_bytes()))
    check = gpu_work(open_capture(path))
    nothing = "0 of 20 kernels recorded, 0 of 60 copies recorded: another profiler used CUPTI in process"
    assert (check.level, check.text.startswith(nothing), bool(check.cure)) == ("problem", True, True)


@pytest.mark.gpu
@pytest.mark.usefixtures("nsys")
@needs_gpu
def test_the_probe_on_a_real_gpu(cli: Cli) -> None:
    made = levels(cli("doctor", "--probe", "--json").stdout, "probe")
    assert made == {"recording": "ok", "GPU work": "ok"}


def test_the_packet_has_what_is_not_ok(cli: Cli) -> None:
    done, whole = cli("doctor", "--format", "brief", **BARE), cli("doctor", "--format", "json", **BARE)
    assert (done.returncode, whole.returncode) == (1, 1)
    assert len(done.stdout) <= 4097
    packet, checks = json.loads(done.stdout), data(whole.stdout)["checks"]
    Draft202012Validator(BRIEF).validate(packet)
    assert packet["counts"]["ok"] == sum(check["level"] == "ok" for check in checks)
    names = {check["subject"] for check in checks if check["level"] == "problem"}
    assert names == {check["name"] for check in packet["checks"] if check["state"] == "problem"}


def test_one_form_of_the_checks(cli: Cli) -> None:
    done = cli("doctor", "--json", "--format", "brief")
    assert (done.returncode, json.loads(done.stdout)["kind"]) == (2, "UsageError")
