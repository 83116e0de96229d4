"""Find the likely causes why a capture holds no GPU work, from the export and the run folder."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from nsyswrap.base.nsys.releases import FIRST_NSYS

if TYPE_CHECKING:
    from nsyswrap.capture.capture import Capture

# A message of nsys for a driver newer than it supports.
_OLD_NSYS = re.compile(r"driver version .* not supported by this build")


def no_gpu_work(capture: Capture, run: dict[str, Any]) -> list[str]:
    """Return the possible causes, the likeliest first; ``run`` is the content of run.json, or empty."""
    if run.get("gpu_error"):
        return [f"this machine has no usable GPU: {run['gpu_error']}"]
    losses = [f"nsys reported missing events: {loss.text}" for loss in capture.diagnostics if loss.loss]
    causes = [*losses, *_trace(capture, run), *_old_nsys(capture), *_range(run)]
    if not capture.has("api"):
        causes.append("the program made no CUDA call while it was recorded")
        causes.append(
            "the work was in a process that nsys does not follow (a daemon, a container, another node)"
        )
    else:
        calls = capture.count("api")
        count = f"{calls:,} CUDA API call{'' if calls == 1 else 's'}"
        causes.append(f"the program made {count}, but launched no kernel and copied nothing")
    return causes


def _trace(capture: Capture, run: dict[str, Any]) -> list[str]:
    trace = str(run.get("nsys", {}).get("trace", "cuda"))
    if "cuda" not in trace:
        return [f"CUDA was not traced: --trace={trace} (add cuda)"]
    return (
        ["CUDA was not traced (nsyswrap profile --trace cuda,nvtx)"]
        if capture.info.cuda_traced is False
        else []
    )


def _old_nsys(capture: Capture) -> list[str]:
    """Return messages of nsys on the driver, and a cause if the driver's CUDA is newer than the nsys."""
    causes = [d.text for d in capture.diagnostics if _OLD_NSYS.search(d.text)]
    info = capture.info
    cuda = int(info.cuda_version.split(".")[0]) if info.cuda_version else 0
    release = tuple(int(part) for part in re.findall(r"\d+", info.exporter_version)[:2])
    if cuda in FIRST_NSYS and release and release < FIRST_NSYS[cuda]:
        first = ".".join(map(str, FIRST_NSYS[cuda]))
        causes.append(
            f"nsys {info.exporter_version} may be too old for CUDA {info.cuda_version} (first: {first})"
        )
    return causes


def _range(run: dict[str, Any]) -> list[str]:
    capture_range = run.get("nsys", {}).get("capture_range")
    return [f"the capture range {capture_range} may not have enclosed any GPU work"] if capture_range else []
