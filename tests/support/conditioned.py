"""Run folders with conditions: a tiny export, ``run.json`` and ``conditions.csv``.

Instead of NVML, which needs a GPU, a test chooses the samples: so its figures can be worked out on paper.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from tiny_export import Row, row, write

from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.base.run_facts import COLUMNS, Conditions, Gpu, GpuProcess
from nsyswrap.base.run_folder import CONDITIONS, EXPORT, RUN

EPOCH = 1_700_000_000_000_000_000  # time 0 of the capture, ns since 1970
MS = 1_000_000
STARTED = row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=EPOCH)
OWN = GpuProcess(100, "python", in_run=True)
H200 = Gpu("GPU-A", "NVIDIA H200", max_sm_mhz=1980, power_limit_w=700.0, samples=41, processes=(OWN,))
IDLE, FULL, POWER = 0x1, 0x0, 0x4  # reasons

Sample = tuple[object, ...]  # time in ms since time 0 of the capture, then the columns after the time


def sample(
    ms: float, sm: object = 1980, power_w: float = 300, reasons: object = FULL, gpu: int = 0
) -> Sample:
    return (ms, gpu, sm, 3201, int(power_w * 1000), 50, reasons)


def idle(ms: float, gpu: int = 0) -> Sample:
    return (ms, gpu, 345, 3201, 80_000, 30, IDLE)


def around(work: Iterable[Sample], last_ms: int = 4000, gpu: int = 0) -> list[Sample]:
    """Return samples every 100 ms from 0 on: those of the work, and an idle GPU in between."""
    by_time = {one[0]: one for one in work}
    return [by_time.get(ms, idle(ms, gpu)) for ms in range(0, last_ms + 1, 100)]


def csv_of(samples: Sequence[Sample]) -> str:
    rows = ((EPOCH + round(float(str(ms)) * MS), *rest) for ms, *rest in samples)
    return "".join(f"{','.join(map(str, cells))}\n" for cells in (COLUMNS, *rows))


def run_folder(
    folder: Path, rows: Iterable[Row], samples: Sequence[Sample] | str | None, facts: Conditions | None
) -> Path:
    """Write a run folder. ``samples`` can be the text of the file, or None for none."""
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / EXPORT, *rows)
    conditions = {} if facts is None else {"conditions": asdict(facts)}
    (folder / RUN).write_text(json.dumps({"host": "gpu07", **conditions}), encoding="utf-8")
    if samples is not None:
        text = samples if isinstance(samples, str) else csv_of(samples)
        (folder / CONDITIONS).write_text(text, encoding="utf-8")
    return folder


def recorded(
    folder: Path, rows: Iterable[Row], samples: Sequence[Sample] | str | None, facts: Conditions | None = None
) -> CaptureReader:
    return open_capture(run_folder(folder, [*rows, STARTED], samples, facts or Conditions((H200,))))
