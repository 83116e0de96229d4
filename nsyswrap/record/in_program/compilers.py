"""Triton, torch.compile and CUDA graphs for scenarios.

Their kernels are kept in caches that the next process reads. Without Triton there is an error.
"""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

from nsyswrap.base import paths
from nsyswrap.base.errors import Unavailable
from nsyswrap.base.run_folder import cache_dir

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from torch import Tensor

    from nsyswrap.record.in_program.clocks import Operation


def use_caches(name: str) -> None:
    """Let Triton and torch.compile keep the kernels of scenario ``name`` in a cache for the next process.

    Call this before either is imported. Variables that the user has set are kept.
    """
    os.environ.setdefault("TRITON_CACHE_DIR", str(cache_dir(name, "triton")))
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_dir(name, "inductor")))
    os.environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "1")
    # Compile in this process. Worker processes would start even without work, and nsys would follow them.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")


def use_folder(folder: Path) -> None:
    """Let Triton and torch.compile keep kernels in this folder. Call this before either is imported."""
    os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
    use_caches(folder.name)


def made_in(folder: Path) -> dict[str, str]:
    """Return the PTX of the kernels that Triton and torch.compile made in this folder, by name."""
    found = sorted(paths.matching(folder, "triton/*/*.ptx"), key=lambda path: path.name)
    return {path.stem: path.read_text(encoding="utf-8") for path in found}


def has_triton() -> bool:
    """Return True if Triton is installed."""
    return importlib.util.find_spec("triton") is not None


def need_triton() -> None:
    """Raise Unavailable if Triton is not installed. torch.compile needs it, too."""
    if not has_triton():
        raise Unavailable("Triton is not installed", "use pip install triton, or other variants")


def capture_graph(torch: ModuleType, operation: Operation) -> Operation:
    """Run ``operation`` once, capture it as a CUDA graph, and return a function that replays that.

    A replay returns the tensor that was captured, with its new values.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # loading and allocating at the first use cannot be captured
        operation()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = operation()

    def replay() -> Tensor:
        graph.replay()
        return result

    return replay
