"""What is told of programs in Python on a GPU: JAX keeps its kernels, and garbage collections are seen."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import Cli
from gpus_here import needs_gpu

from nsyswrap.analysis.program_language import JAX, language_of
from nsyswrap.api import open_capture

pytestmark = [
    pytest.mark.gpu,
    needs_gpu,
    pytest.mark.usefixtures("nsys"),
]
PROGRAMS = Path(__file__).parents[1] / "labelled" / "busy" / "programs"


@pytest.mark.skipif(find_spec("jax") is None, reason="needs JAX")
@pytest.mark.parametrize("words", [("jax_unjitted.py",), ("-m", "jax_unjitted")])
def test_jax_keeps_its_kernels(words: tuple[str, ...], cli: Cli, tmp_path: Path) -> None:
    for name in ("jax_unjitted.py", "common.py"):
        (tmp_path / name).write_text((PROGRAMS / name).read_text())
    done = cli("profile", "--no-stats", "-o", "run", *words)
    assert done.returncode == 0, done.stderr
    assert "imports jax: recording without NVTX ranges" in done.stderr
    capture = open_capture(tmp_path / "run")
    assert capture.count("kernel") > 1_000
    assert not capture.answer.withheld
    assert language_of(capture.whole) == JAX


@pytest.mark.torch
@pytest.mark.usefixtures("torch")
def test_garbage_collection_stands_first(cli: Cli, tmp_path: Path) -> None:
    for name in ("garbage.py", "common.py"):
        (tmp_path / name).write_text((PROGRAMS / name).read_text())
    done = cli("profile", "--no-stats", "-o", "run", "--trace", "cuda,nvtx,python-gc", "garbage.py")
    assert done.returncode == 0, done.stderr
    first, *_ = (one for one in open_capture(tmp_path / "run").answer.findings if one.ceiling_ns is not None)
    assert first.kind == "garbage_collection"
    assert (first.ceiling_percent or 0) > 50  # 70.8 ms a step, 21.9 without: tests/labelled/busy
