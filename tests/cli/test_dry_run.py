"""``profile --dry-run`` prints the command line of nsys on a machine that has none."""

import shlex
from pathlib import Path

import pytest
from conftest import Cli

from nsyswrap.base.nsys import find
from nsyswrap.cli import cli as nsyswrap


def test_without_an_nsys_it_is_called_nsys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(find.VARIABLE, raising=False)
    monkeypatch.setattr(find, "candidates", lambda: iter(()))
    monkeypatch.chdir(tmp_path)
    nsyswrap.main(["profile", "--dry-run", "-o", "run", "true", "x"], standalone_mode=False)
    done = capsys.readouterr()
    words = shlex.split(done.out)
    assert words[:5] == ["mkdir", "-p", "run", "&&", "nsys"]
    assert words[5:7] == ["profile", "--stats=true"]
    assert words[-2:] == ["true", "x"]
    assert done.err == (
        "nsyswrap: nsys was not found on PATH or in the usual places\n"
        "  install NVIDIA Nsight Systems (https://developer.nvidia.com/nsight-systems), "
        f"or name its nsys in ${find.VARIABLE}; nsyswrap demo needs none\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_an_nsys_of_another_machine_is_called_as_it_is_named(cli: Cli) -> None:
    named = "/other/machine/nsys"
    by_option = cli("profile", "--dry-run", "-o", "run", "--nsys", named, "true")
    by_variable = cli("profile", "--dry-run", "-o", "run", "true", **{find.VARIABLE: named})
    for done, source in ((by_option, "--nsys"), (by_variable, f"${find.VARIABLE}")):
        assert done.returncode == 0
        assert shlex.split(done.stdout)[4] == named
        assert done.stderr.startswith(f"nsyswrap: {source} names {named}, which is not an executable\n")
