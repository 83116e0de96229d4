"""Which nsys is taken, and what is said of one that cannot work."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Cli

from nsyswrap.base.errors import Unavailable
from nsyswrap.base.nsys import find as nsys_install
from nsyswrap.base.nsys.find import Nsys, find_nsys, judge


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No nsys of this machine, and a cache of its own."""
    monkeypatch.delenv(nsys_install.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(nsys_install, "PLACES", ())
    monkeypatch.setattr(nsys_install, "DEBIAN_HOST", tmp_path / "no-such-folder")


def wrapper(path: Path, version: str = "2023.4.4.54") -> Path:
    """A script as CUDA's bin/nsys is one; it stands for versions of nsys that are not all to be had here."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho NVIDIA Nsight Systems version {version}-233133147223v0\n")
    path.chmod(0o755)
    return path


@pytest.fixture(scope="session")
def real(nsys: str) -> Path:
    """The real nsys' own executable."""
    path = Path(nsys).resolve()
    if path.read_bytes()[:4] != b"\x7fELF" or not (_host(path) / "QdstrmImporter").exists():
        pytest.skip(f"{path} is a wrapper: its parts are not beside it")
    return path


def _host(path: Path) -> Path:
    return path.parent.parent / path.parent.name.replace("target-", "host-")


@pytest.fixture(scope="session")
def copy(real: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copy2(real, tmp_path_factory.mktemp("real")))


@pytest.fixture
def target(real: Path, copy: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Put the real nsys, without its other half, into a folder of that name."""

    def put(folder: str) -> Path:
        path = tmp_path / folder / real.parent.name / "nsys"
        path.parent.mkdir(parents=True)
        os.link(copy, path)
        for other in real.parent.iterdir():  # the libraries of its own
            if other.name != path.name:
                (path.parent / other.name).symlink_to(other)
        return path

    return put


def test_none_at_all() -> None:
    with pytest.raises(Unavailable, match="nsys was not found on PATH or in the usual places") as error:
        find_nsys()
    assert error.value.exit_code == 69
    assert "install NVIDIA Nsight Systems" in error.value.hint
    assert nsys_install.VARIABLE in error.value.hint


def test_the_one_on_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = wrapper(tmp_path / "bin" / "nsys", "2022.4.2.1")
    wrapper(tmp_path / "opt" / "2025.3.1" / "nsys", "2025.3.1.90")
    monkeypatch.setattr(nsys_install, "PLACES", (f"{tmp_path}/opt/*/nsys",))
    assert find_nsys() == (Nsys(str(on_path), "2022.4.2.1"), [])


def test_of_the_usual_places_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("2024.10.1", "2024.9.2", "2025.3.1"):
        wrapper(tmp_path / "opt" / version / "nsys", version)
    monkeypatch.setattr(nsys_install, "PLACES", (f"{tmp_path}/opt/*/nsys",))
    assert find_nsys()[0].release == (2025, 3, 1)
    assert [path.parent.name for path in nsys_install.candidates()] == ["2025.3.1", "2024.10.1", "2024.9.2"]


def test_to_read_a_report_the_newest_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper(tmp_path / "bin" / "nsys", "2022.4.2.1")
    wrapper(tmp_path / "opt" / "nsys", "2025.3.1.90")
    monkeypatch.setattr(nsys_install, "PLACES", (f"{tmp_path}/opt/nsys",))
    assert nsys_install.newest().version == "2025.3.1.90"
    monkeypatch.setenv(nsys_install.VARIABLE, str(tmp_path / "bin" / "nsys"))
    assert nsys_install.newest().version == "2022.4.2.1"


def test_the_variable_outranks_path_and_the_option_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper(tmp_path / "bin" / "nsys", "2022.4.2")
    monkeypatch.setenv(nsys_install.VARIABLE, str(wrapper(tmp_path / "b" / "nsys", "2023.4.4")))
    assert find_nsys()[0].version == "2023.4.4"
    assert find_nsys(str(wrapper(tmp_path / "c" / "nsys", "2024.2.3")))[0].version == "2024.2.3"


def test_one_file_under_two_names_is_one_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = wrapper(tmp_path / "opt" / "nsys")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nsys").symlink_to(path)
    monkeypatch.setattr(nsys_install, "PLACES", (f"{tmp_path}/opt/nsys",))
    assert list(nsys_install.candidates()) == [tmp_path / "bin" / "nsys"]


@pytest.mark.parametrize("kind", ["absent", "a folder", "not executable"])
def test_a_named_one_that_is_no_executable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = tmp_path / "named"
    if kind == "a folder":
        path.mkdir()
    elif kind == "not executable":
        path.write_text("#!/bin/sh\n")
    wrapper(tmp_path / "bin" / "nsys")  # is not taken instead
    with pytest.raises(Unavailable, match=f"--nsys names {path}, which is not an executable"):
        find_nsys(str(path))
    monkeypatch.setenv(nsys_install.VARIABLE, str(path))
    with pytest.raises(Unavailable, match=rf"\${nsys_install.VARIABLE} names {path}"):
        find_nsys()


def test_what_is_no_nsys(cli: Cli) -> None:
    done = cli("profile", "--nsys", "/bin/true", "/bin/echo", "this never runs")
    assert (done.returncode, done.stdout) == (69, "")
    assert "/bin/true: `nsys --version` does not answer" in done.stderr
    assert "install NVIDIA Nsight Systems again" in done.stderr


def test_without_nsys_nothing_is_left_behind(tmp_path: Path, cli: Cli) -> None:
    done = cli("profile", "--nsys", "/absent", "/bin/echo", "this never runs")
    assert (done.returncode, done.stdout) == (69, "")
    assert not (tmp_path / "nsyswrap-runs").exists()


def test_a_broken_one_is_passed_over_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: Callable[[str], Path]
) -> None:
    broken = target("bin")
    monkeypatch.setenv("PATH", str(broken.parent))
    with pytest.raises(Unavailable, match="it records but cannot make a report") as error:
        find_nsys()
    assert "install the whole Nsight Systems package" in error.value.hint

    monkeypatch.setattr(nsys_install, "PLACES", (str(wrapper(tmp_path / "opt" / "nsys")),))
    found, passed_over = find_nsys()
    assert found.path == str(tmp_path / "opt" / "nsys")
    assert [nsys.path for nsys in passed_over] == [str(broken)]


def test_the_real_one_works(real: Path) -> None:
    assert judge(real).fault == ""
    assert judge(real).release >= (2021,)


def test_debian_puts_the_halves_apart(
    tmp_path: Path, real: Path, target: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Debian does: the target half in .../nsight-systems, the host half in a folder elsewhere."""
    nsys = target("usr/lib/x86_64-linux-gnu/nsight-systems")
    elsewhere = tmp_path / "usr/lib/nsight-systems" / _host(real).name
    elsewhere.parent.mkdir()
    elsewhere.symlink_to(_host(real))
    monkeypatch.setattr(nsys_install, "DEBIAN_HOST", elsewhere.parent)
    judged = judge(nsys)
    assert f"no {_host(real).name} folder with QdstrmImporter beside {nsys.parent}" in judged.fault
    assert judged.cure == f"ln -s {elsewhere} {nsys.parent.parent / _host(real).name}"

    subprocess.run(["/bin/sh", "-c", judged.cure], check=True, env={"PATH": os.defpath})
    assert judge(nsys).fault == ""


def test_nsight_compute_names_the_host_half_otherwise(
    tmp_path: Path, real: Path, target: Callable[[str], Path]
) -> None:
    nsys = target("nsight-compute/2025.3.1/host")
    (nsys.parent.parent / "linux-desktop-glibc_2_11_3-x64").symlink_to(_host(real))
    judged = judge(nsys)
    assert "it records but cannot make a report" in judged.fault

    command, _, advice = judged.cure.partition(" && export NSYSWRAP_NSYS=")
    environment = {"HOME": str(tmp_path / "home"), "PATH": os.defpath}
    subprocess.run(["/bin/sh", "-c", command], check=True, env=environment)
    path = advice.replace("~", environment["HOME"])
    assert judge(Path(path)).fault == ""


def test_an_importer_without_its_libraries_and_then_with_them(
    real: Path, target: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.defpath)  # where ldd is
    nsys = target("opt")
    _host(nsys).mkdir()
    shutil.copy2(_host(real) / "QdstrmImporter", _host(nsys))
    judged = judge(nsys)
    assert judged.fault.startswith("its importer lacks lib")
    assert judged.cure.startswith("sudo apt-get install libdw1 ")

    for library in _host(real).glob("*.so*"):
        (_host(nsys) / library.name).symlink_to(library)
    assert judge(nsys).fault == ""


def test_that_one_works_is_remembered_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = wrapper(tmp_path / "nsys", "2023.4.4")
    assert judge(path).version == "2023.4.4"
    with monkeypatch.context() as patched:
        patched.setattr(nsys_install, "_examine", None)  # is not called
        assert judge(path) == Nsys(str(path), "2023.4.4")
    wrapper(path, "2024.2.3")
    os.utime(path, ns=(1, 1))
    assert judge(path).version == "2024.2.3"


def test_that_one_is_broken_is_not_remembered(tmp_path: Path) -> None:
    path = wrapper(tmp_path / "nsys", "x")
    before = path.stat()
    assert judge(path).fault
    wrapper(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert judge(path).fault == ""


@pytest.mark.parametrize("content", ["", "{", "[]", "\udcff"])
def test_a_damaged_cache_is_no_harm(tmp_path: Path, content: str) -> None:
    path = wrapper(tmp_path / "nsys")
    cache = tmp_path / "cache" / "nsyswrap" / "nsys.json"
    cache.parent.mkdir(parents=True)
    cache.write_bytes(content.encode(errors="surrogateescape"))
    assert judge(path).fault == ""


def test_without_a_cache_folder_it_is_judged_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/cache")
    path = wrapper(tmp_path / "nsys")
    assert judge(path) == judge(path) == Nsys(str(path), "2023.4.4.54")


def script(path: Path, line: str) -> Path:
    path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{line}\n")
    path.chmod(0o755)
    return path


def test_one_that_does_not_answer_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsys_install, "_TIMEOUT_S", 0.2)
    path = script(tmp_path / "nsys", "sleep 600")
    assert judge(path).fault == "`nsys --version` did not end within 0.2 s"


@pytest.mark.parametrize("stream", ["", ">&2"])
def test_one_that_answers_without_end(tmp_path: Path, stream: str) -> None:
    path = script(tmp_path / "nsys", f"yes {stream}")
    assert judge(path).fault == "`nsys --version` printed more than 4 MiB"


def test_one_that_answers_in_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = script(tmp_path / "nsys", r"printf '\377\376 2023.4.4.54 \200'")
    assert (judge(path).version, judge(path).fault) == ("2023.4.4.54", "")
    path = script(tmp_path / "other", "head -c 100000 /dev/urandom | tr -d 0-9")
    assert judge(path).fault == "`nsys --version` does not answer"


@pytest.mark.parametrize(
    ("usage", "argument"),
    [
        ("--gpu-metrics-device= must be none or one of GPU IDs", "--gpu-metrics-device=all"),
        ("--gpu-metrics-devices= all, none, or IDs", "--gpu-metrics-devices=all"),
        ("--gpu-metrics-devices= all, cuda-visible, none, or IDs", "--gpu-metrics-devices=cuda-visible"),
    ],
)
def test_how_its_option_for_counters_is_spelled(usage: str, argument: str, tmp_path: Path) -> None:
    path = script(tmp_path / "nsys", f"[ \"$1\" = --version ] && echo 2025.3.1.90 || echo '{usage}'")
    assert judge(path).gpu_metrics == argument


def test_one_whose_help_has_no_end(tmp_path: Path) -> None:
    path = script(tmp_path / "nsys", '[ "$1" = --version ] && echo 2023.4.4.54 || yes')
    assert (judge(path).fault, judge(path).discards_environment) == ("", False)
