"""What doctor says of the nsys on a machine: of real files, and of facts that are made up."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nsyswrap.base.nsys import find
from nsyswrap.base.nsys.find import Nsys
from nsyswrap.record import doctor
from nsyswrap.record.doctor import Installations, gather_installations, installation_checks

WORKS = "SKIPPED: x.sqlite does not contain NV Tools Extension (NVTX) data."
MOVED = "ERROR: Report 'nvtx_sum.py': Module threw exception No module named 'nsysstats'"


def lines(found: Installations) -> list[tuple[str, str]]:
    return [(check.level, check.subject) for check in installation_checks(found)]


def test_the_real_nsys_works_with_its_own_reports(nsys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(find.VARIABLE, nsys)
    found = gather_installations()
    assert found.used is not None
    assert found.used.path == nsys
    first, importer, stats, *_ = installation_checks(found)
    assert (first.level, first.text) == ("ok", f"{found.used.version} at {nsys}, named by $NSYSWRAP_NSYS")
    assert importer.level in ("ok", "unknown")  # unknown: a wrapper script
    assert (stats.level, stats.text) == ("ok", "its reports run")


def test_the_modules_that_debian_moves_are_missed_and_copied_back(
    nsys: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real nsys without nsysstats.py, as Debian ships it."""
    host = find.host_folder(nsys)
    if host is None:
        pytest.skip(f"{nsys} is a wrapper: its parts are not beside it")
    real = Path(nsys).resolve()
    target = shutil.copytree(real.parent, tmp_path / real.parent.name, symlinks=True)
    here = shutil.copytree(host, tmp_path / host.name, copy_function=linked)
    debian = tmp_path / "dist-packages"
    debian.mkdir()
    for name in ("nsysstats.py", "gpustats.py"):
        shutil.copy(here / "python" / "lib" / name, debian)
        (here / "python" / "lib" / name).unlink()
    shutil.rmtree(here / "python" / "lib" / "__pycache__", ignore_errors=True)
    monkeypatch.setattr(doctor, "_DEBIAN_PYTHON", debian)
    monkeypatch.setenv(find.VARIABLE, str(target / "nsys"))
    stats = [check for check in installation_checks(gather_installations()) if check.subject == "nsys stats"]
    assert [check.level for check in stats] == ["note"]
    assert "No module named 'nsysstats'" in stats[0].text
    assert stats[0].cure.startswith("sudo cp ")

    *modules, folder = stats[0].cure.removeprefix("sudo cp ").split()
    for module in modules:
        shutil.copy(module, folder)
    assert [
        check.level for check in installation_checks(gather_installations()) if check.subject == "nsys stats"
    ] == ["ok"]


def linked(source: str, target: str) -> str:
    Path(target).symlink_to(source)
    return target


def test_without_any_nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(find.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(find, "PLACES", ())
    [check] = installation_checks(gather_installations())
    assert (check.level, check.text) == ("problem", "nsys was not found on PATH or in the usual places")
    assert check.cure.startswith("apt-cache search nsight-systems")


def test_a_broken_one_is_a_problem_only_if_none_works() -> None:
    broken = Nsys("/opt/nsight-compute/nsys", "2025.3.1", "it records but cannot make a report", "cp a b")
    alone = Installations(fault=f"{broken.path}: {broken.fault}", cure=broken.cure, others=(broken,))
    [check] = installation_checks(alone)
    assert (check.level, check.cure) == ("problem", "cp a b")
    beside = Installations(Nsys("/no/such/nsys", "2025.5.1"), others=(broken,), stats_output=WORKS)
    assert lines(beside) == [
        ("ok", "nsys"),
        ("unknown", "importer"),
        ("ok", "nsys stats"),
        ("note", "another nsys"),
    ]


def test_one_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    program = tmp_path / "nsys"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o111)
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("needs setpriv (util-linux): root reads everything")
    code = (
        "from nsyswrap.record import doctor\n"
        "print([check.text for check in doctor.installation_checks(doctor.gather_installations())])"
    )
    environment = {"PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(tmp_path)}
    command = [setpriv, "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-c", code]
    if os.geteuid():
        command = command[3:]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert f"{program}: it cannot be read: Permission denied" in done.stdout


@pytest.mark.parametrize(
    ("version", "fault"),
    [
        ("2022.4.2.1", "hangs if it samples the CPU"),
        ("2023.4.4.54", "omit NVTX"),
        ("2024.2.3.38", "omit NVTX"),
        ("2025.3.1.90", ""),
    ],
)
def test_known_faults(version: str, fault: str) -> None:
    found = Installations(Nsys("/no/such/nsys", version), stats_output=WORKS)
    notes = [check.text for check in installation_checks(found) if check.level == "note"]
    assert len(notes) == bool(fault)
    assert all(fault in note for note in notes)


@pytest.mark.parametrize(
    ("output", "level"), [(WORKS, "ok"), (MOVED, "note"), ("", "note"), (None, "unknown")]
)
def test_reports_of_nsys_are_not_needed_to_record(output: str | None, level: str) -> None:
    found = Installations(Nsys("/no/such/nsys", "2025.3.1"), stats_output=output)
    assert [check.level for check in installation_checks(found) if check.subject == "nsys stats"] == [level]
