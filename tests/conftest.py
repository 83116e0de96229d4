"""What tests of several files need: nsyswrap as a process of its own, and a real nsys."""

import gc
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import foreign
import hypothesis
import pytest
from hypothesis.configuration import set_hypothesis_home_dir
from slurm_cluster import Cluster, running_cluster
from waiting import PATIENCE_S, give_tools_time
from warm_cli import WarmCli

from nsyswrap.base.errors import Unavailable
from nsyswrap.base.nsys import find as nsys_install
from nsyswrap.base.run_folder import LOG, STATUS
from nsyswrap.base.units import Rounding
from nsyswrap.record.nvcc import find_nvcc

pytest_plugins = ("tiers",)

# It keeps tables of characters, which take it a second to make, and in no checkout.
set_hypothesis_home_dir(Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "hypothesis")
hypothesis.settings.register_profile(
    "busy machine", deadline=None, database=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("few", hypothesis.settings.get_profile("busy machine"), max_examples=10)
with suppress(ImportError):  # older ones do not look for constants
    from hypothesis.internal.conjecture import providers

    # It reads all modules that are loaded, for seconds; then examples differ with what else a process tests.
    providers._get_local_constants = lambda: providers._local_constants  # noqa: SLF001

ROOT = Path(__file__).resolve().parents[1]
_FOLDERS = itertools.count()
MAIN = "from nsyswrap.cli import main; main()"  # hints name `nsyswrap`: it was not started as a command


class Cli(Protocol):
    """Runs ``nsyswrap ARGUMENTS`` in the test's folder; keywords are environment variables."""

    def __call__(
        self, *arguments: str | Path, stdin: str = "", **variables: str
    ) -> subprocess.CompletedProcess[str]: ...


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


class InProcess(Protocol):
    """Runs ``nsyswrap ARGUMENTS`` in the process of the tests."""

    def __call__(self, *arguments: str | Path) -> Done: ...


class RunIn(Protocol):
    """Runs ``nsyswrap WORDS`` in a folder; keywords are environment variables."""

    def __call__(self, folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]: ...


def pytest_configure(config: pytest.Config) -> None:
    few = config.getoption("few") or config.getoption("fast")
    hypothesis.settings.load_profile("few" if few else "busy machine")
    give_tools_time()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare each garbage collection the thousands of tests and all that they import."""
    gc.disable()
    result = yield
    gc.set_threshold(100_000, 20, 100)  # gc.freeze would hide what Hypothesis looks for by gc.get_referrers
    gc.enable()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show beside a test that failed what nsys said, if a run failed for it, and the state of its cluster."""
    report = yield
    fixtures = getattr(item, "funcargs", {})
    folder = fixtures.get("tmp_path")
    if report.failed and "cluster" in fixtures:
        report.sections.append(("Slurm", fixtures["cluster"].state()))
        for log in sorted(folder.rglob("slurm/*.log")) if folder else ():
            report.sections.append((str(log.relative_to(folder)), _text(log)[-3000:]))
    for status in sorted(folder.rglob(STATUS)) if report.failed and folder else ():
        told, said = (_text(status.with_name(name)) for name in (STATUS, LOG))
        if '"nsys_failed"' in told:
            report.sections.append((f"{status.parent.relative_to(folder)}", f"{told}{said[-3000:]}"))
    return report


def _text(path: Path) -> str:
    """What a file holds; a test may have made its folder up, or taken it away."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


@pytest.fixture
def in_process(capsys: pytest.CaptureFixture[str]) -> InProcess:
    """Run a command in this process."""
    from nsyswrap.cli import main  # noqa: PLC0415 - few tests need it

    def run(*arguments: str | Path) -> Done:
        with pytest.raises(SystemExit) as end:
            main(list(map(str, arguments)))
        code = end.value.code or 0
        assert isinstance(code, int)
        return Done(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def rounding(nsys: str) -> Rounding:
    """How the nsys of this machine rounds."""
    from nsys_says import era_of  # noqa: PLC0415 - loads reports, which few tests need

    return era_of(nsys)


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new folder, named after the test. For pytest's own one it reads the names of all there are."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}{next(_FOLDERS)}"
    folder.mkdir(0o700)
    return folder


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the recordings that the tests of a file unpack."""
    return tmp_path_factory.mktemp("recorded")


@pytest.fixture(scope="module")
def cluster(environment: dict[str, str]) -> Generator[Cluster, None, None]:
    """A Slurm cluster on this machine; where there is no Slurm the tests that need it are skipped."""
    with running_cluster(environment) as cluster:
        yield cluster


@pytest.fixture(scope="session", autouse=True)
def signals_as_from_a_terminal() -> None:
    """What the tests start must heed signals, also where the tests run in a script's background."""
    for number, handler in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGTERM, signal.SIG_DFL),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.fixture(scope="session", autouse=True)
def own_settings_and_state(tmp_path_factory: pytest.TempPathFactory) -> Generator[None, None, None]:
    """Runs that tests begin in this process are not noted for the person who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name)))
        yield


@pytest.fixture
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Generator[Path, None, None]:
    """A file system of 64 kB, or of what a test asks for."""
    size = getattr(request, "param", "64k")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount or "", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if mount is None or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("cannot mount a small file system: not root, or in a container")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.fixture(scope="session")
def nsys() -> str:
    """The real nsys; where there is none the tests that need it are skipped."""
    try:
        return nsys_install.find_nsys()[0].path
    except Unavailable as error:
        if nsys_install.VARIABLE in os.environ:
            raise
        pytest.skip(f"needs a working nsys: {error}")


@pytest.fixture(scope="session")
def nvcc() -> str:
    """The real nvcc; where there is none the tests that need it are skipped."""
    try:
        return find_nvcc()
    except Unavailable as error:
        pytest.skip(f"needs nvcc: {error}")


@pytest.fixture(scope="session")
def torch() -> Any:  # noqa: ANN401 - torch is not installed for the type checker
    """PyTorch; where there is none the tests that need it are skipped."""
    return pytest.importorskip("torch", reason="needs PyTorch (TORCH=torch bash tests/run installs it)")


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with a home and a cache of its own, no terminal, in which nsyswrap can be imported."""
    home = tmp_path_factory.mktemp("home")
    left_out = (
        *("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "XDG_CONFIG_HOME", "XDG_STATE_HOME"),
        *("VIRTUAL_ENV", "CONDA_PREFIX"),
    )
    outside = {name: value for name, value in os.environ.items() if name not in left_out}
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**outside, "HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"), "PYTHONPATH": path}


@pytest.fixture(scope="session")
def warm_cli(environment: dict[str, str]) -> Generator[WarmCli, None, None]:
    with closing(WarmCli(environment)) as warm:
        yield warm


@pytest.fixture(scope="session")
def ordinary(environment: dict[str, str]) -> Generator[RunIn, None, None]:
    """nsyswrap run by a user who may not look into the places of another one."""
    if reason := foreign.lacks():
        pytest.skip(reason)
    with closing(WarmCli(environment, foreign.ORDINARY)) as warm:
        yield lambda folder, *words, **variables: warm.run([*words], folder, "", variables, PATIENCE_S)


@pytest.fixture
def cli(tmp_path: Path, environment: dict[str, str], warm_cli: WarmCli) -> Cli:
    def run(*arguments: str | Path, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        words = [*map(str, arguments)]
        if warm_cli.can_run(words, stdin, variables):
            return warm_cli.run(words, tmp_path, stdin, variables, PATIENCE_S)
        return subprocess.run(
            [sys.executable, "-c", MAIN, *words],
            cwd=tmp_path,
            env={**environment, **variables},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )

    return run
