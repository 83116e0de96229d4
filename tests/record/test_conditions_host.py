"""Facts on the machine."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from nsyswrap.base.run_facts import Host
from nsyswrap.record import conditions

if TYPE_CHECKING:
    from pathlib import Path

INTEL = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) CPU @ 2.10GHz \nprocessor\t: 1\nmodel name\t: other\n"
GRACE = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"


def governors(folder: Path, *names: str) -> None:
    for core, name in zip(sorted(os.sched_getaffinity(0)), names, strict=False):
        file = folder / f"cpu{core}" / "cpufreq" / "scaling_governor"
        file.parent.mkdir(parents=True)
        file.write_text(f"{name}\n")


def test_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    monkeypatch.setattr(conditions, "CPUS", tmp_path)
    monkeypatch.setattr(conditions, "CPU_INFO", tmp_path / "missing")
    made = conditions.describe_host((0.5,))
    cores = len(os.sched_getaffinity(0))
    assert made == Host(socket.gethostname(), "", cores, "", made.load, os.sysconf("SC_NPROCESSORS_ONLN"))
    assert made.load[0] == 0.5
    assert len(made.load) == 2


def test_a_node_of_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "gpu07")
    assert conditions.describe_host(()).node == "gpu07"


def test_the_model_of_the_cpu() -> None:
    assert conditions.cpu_model(INTEL) == "Intel(R) Xeon(R) CPU @ 2.10GHz"
    assert conditions.cpu_model(GRACE) == ""


def test_the_governor_of_the_usable_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(conditions, "CPUS", tmp_path)
    governors(tmp_path, *["performance"] * len(os.sched_getaffinity(0)))
    assert conditions.describe_host(()).governor == "performance"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_different_governors_are_all_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(conditions, "CPUS", tmp_path)
    governors(tmp_path, "powersave", "performance")
    assert conditions.describe_host(()).governor == "performance, powersave"
