"""What doctor says of GPUs and driver. The facts are made up: one machine has few of these faults."""

from dataclasses import replace
from pathlib import Path

import pytest

from nsyswrap.base.check import Check
from nsyswrap.base.nsys.find import Nsys
from nsyswrap.record import gpus
from nsyswrap.record.doctor import system as doctors
from nsyswrap.record.doctor.system import Folder, Gpus, System, gpu_checks
from nsyswrap.record.gpus import NO_ANSWER, NO_LIBRARY, Devices

H200 = Devices(("NVIDIA H200",), ("9.0",), "580.159.04", "13.0", mig=0)
NSYS = Nsys("/usr/bin/nsys", "2025.3.1.90")
POD_CURE = "resources: {limits: {nvidia.com/gpu: 1}}  # in the container's part of the pod"
PLAIN = System(Folder("/scratch"), Folder("/shm"), capabilities=0)
GOOD = Gpus(H200, restricted=False)


def check(subject: str, found: Gpus = GOOD, system: System = PLAIN, nsys: Nsys | None = NSYS) -> Check:
    [one] = [check for check in gpu_checks(found, system, nsys) if check.subject == subject]
    return one


def test_a_good_machine() -> None:
    assert {check.level for check in gpu_checks(GOOD, PLAIN, NSYS)} == {"ok"}
    assert check("GPU").text == "1 x NVIDIA H200 (compute capability 9.0)"
    assert check("driver").text == "580.159.04, CUDA 13.0, which nsys 2025.3 and newer support"


def test_gpus_of_two_models_and_a_limit() -> None:
    devices = replace(H200, names=("A100", "H200", "A100"), capabilities=("8.0", "9.0", "8.0"))
    text = check("GPU", Gpus(devices, visible="0,1,2")).text
    assert text == (
        "2 x A100 (compute capability 8.0), 1 x H200 (compute capability 9.0); CUDA_VISIBLE_DEVICES=0,1,2"
    )


@pytest.mark.parametrize(
    ("code", "visible", "container", "cure"),
    [
        (100, "", "", "unset CUDA_VISIBLE_DEVICES"),
        (100, "7", "Docker", "unset CUDA_VISIBLE_DEVICES"),
        (100, None, "Docker", "docker run --gpus all IMAGE"),
        (100, None, "", "nvidia-smi; ls -l /dev/nvidia*"),
        (NO_LIBRARY, "0", "Apptainer", "apptainer exec --nv IMAGE PROGRAM"),
        (NO_LIBRARY, None, "", doctors.CURES[NO_LIBRARY]),
        (NO_LIBRARY, None, "Kubernetes", POD_CURE),
        (NO_ANSWER, "0", "Docker", "nvidia-smi; ls -l /dev/nvidia*"),
        (802, "0", "Docker", "sudo systemctl start nvidia-fabricmanager"),
        (803, None, "", "sudo reboot"),
        (12345, None, "", "nvidia-smi; ls -l /dev/nvidia*"),
    ],
)
def test_without_a_gpu_the_cure_depends_on_the_cause(
    code: int, visible: str | None, container: str, cure: str
) -> None:
    found = Gpus(Devices(error="why", error_code=code), visible)
    without = {one.subject: one for one in gpu_checks(found, replace(PLAIN, container=container), NSYS)}
    assert (without["GPU"].level, without["GPU"].text, without["GPU"].cure) == ("problem", "why", cure)
    assert {without[name].level for name in ("driver", "MIG", "GPU counters")} == {"unknown"}


@pytest.mark.parametrize(
    ("code", "container", "cure"),
    [
        (NO_LIBRARY, "", "wsl.exe --shutdown"),
        (100, "", "wsl.exe --shutdown"),
        (NO_LIBRARY, "Docker", "docker run"),
        (NO_ANSWER, "", "nvidia-smi"),
    ],
)
def test_in_wsl2_the_driver_is_that_of_windows(code: int, container: str, cure: str) -> None:
    wsl = replace(PLAIN, container=container, kernel="Linux version 5.15.90.1-microsoft-standard-WSL2")
    assert check("GPU", Gpus(Devices(error="why", error_code=code)), wsl).cure.startswith(cure)


def test_a_driver_without_an_answer_differs_from_one_without_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query fails because its script is missing."""
    monkeypatch.setattr(gpus, "__file__", str(tmp_path / "none.py"))
    assert gpus.query().error_code == NO_ANSWER


@pytest.mark.parametrize(
    ("cuda", "nsys", "level"),
    [
        ("13.0", "2025.3.1", "ok"),
        ("13.2", "2025.1.3", "note"),
        ("12.8", "2022.4.2", "ok"),
        ("12.0", "2022.3.9", "note"),
        ("11.8", "2021.1.1", "ok"),
        ("14.0", "2025.3.1", "ok"),
    ],
)
def test_driver_against_nsys(cuda: str, nsys: str, level: str) -> None:
    assert check("driver", Gpus(replace(H200, cuda=cuda)), nsys=Nsys("nsys", nsys)).level == level


def test_the_driver_where_nsys_is_missing() -> None:
    assert check("driver", nsys=None).text == "580.159.04, CUDA 13.0"


def test_mig_and_mps_are_noted() -> None:
    note = check("MIG", Gpus(replace(H200, mig=2)))
    assert (note.level, note.text) == ("note", "on for 2 of the GPUs: a program uses one MIG device")
    assert check("MIG", Gpus(replace(H200, mig=None))).level == "unknown"
    assert check("MPS", replace(GOOD, mps=True)).level == "note"


def test_mps_is_seen_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctors, "_mps_runs", lambda: False)
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    assert not doctors.gather_gpus().mps
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/run/mps")
    assert doctors.gather_gpus().mps


@pytest.mark.parametrize(
    ("restricted", "capabilities", "level"),
    [(True, 0, "note"), (True, 1 << 21, "ok"), (True, 1 << 38, "ok"), (False, 0, "ok"), (None, 0, "unknown")],
)
def test_counters_need_a_right_or_no_restriction(
    *, restricted: bool | None, capabilities: int, level: str
) -> None:
    found, system = replace(GOOD, restricted=restricted), replace(PLAIN, capabilities=capabilities)
    assert check("GPU counters", found, system).level == level
