"""Read the samples of the GPUs that a run folder holds; ``base.conditions`` has the columns."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.base.conditions import COLUMNS
from nsyswrap.base.errors import CaptureError
from nsyswrap.base.files import small_file, why
from nsyswrap.base.run_folder import CONDITIONS

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Samples = dict[str, NDArray[Any]]  # by the names of COLUMNS, all of one length

MOST_BYTES = 64 * 2**20  # five hours of eight GPUs
_EXACT = 2**53  # below it floats hold each integer


def read_samples(folder: Path, gpus: int) -> Samples:
    """Return the samples of a run folder by column, in order of time. NaN: not reported.

    ``gpus`` is the number of GPUs in the run's conditions. Times are in ns since 1970 UTC, exact to 1 us.
    Raises CaptureError with the reason if the file is missing, too large or damaged.
    """
    try:
        rows = _rows(_content(folder / CONDITIONS))
        _check(rows, gpus)
    except (OSError, ValueError) as error:
        raise CaptureError(f"{CONDITIONS} cannot be read: {why(error)}") from None
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    return dict(zip(COLUMNS, rows.T, strict=True))


def _content(path: Path) -> bytes:
    """Return the complete lines of the file. A run that was killed can leave a part of a line."""
    content = small_file(path, MOST_BYTES)
    return content[: content.rfind(b"\n") + 1]


def _rows(content: bytes) -> NDArray[Any]:
    """Return the columns of COLUMNS, a row for each sample. Raises ValueError."""
    head, _, body = content.decode("ascii").partition("\n")
    names = head.strip().split(",")
    if missing := [name for name in COLUMNS if name not in names]:
        raise ValueError(f"no column {missing[0]}")
    body = body.replace("\r", "").replace(",,", ",nan,").replace(",,", ",nan,").replace(",\n", ",nan\n")
    if not body.strip():
        return np.empty((0, len(COLUMNS)))
    columns = [names.index(name) for name in COLUMNS]
    try:
        return np.loadtxt(io.StringIO(body), delimiter=",", comments=None, usecols=columns, ndmin=2)
    except ValueError:  # numpy quotes the cell
        raise ValueError("not a table of numbers") from None


def _check(rows: NDArray[Any], gpus: int) -> None:
    """Raise ValueError for what no GPU reports: negative and infinite values, and an unknown GPU."""
    time, gpu, reasons = rows[:, 0], rows[:, 1], rows[:, -1]
    known = rows[~np.isnan(rows)]
    if not (np.isfinite(known) & (known >= 0)).all() or (reasons >= _EXACT).any():
        raise ValueError("a value is out of range")
    if np.isnan(time).any() or not np.isin(gpu, np.arange(gpus)).all():
        raise ValueError("a sample has no time, or no GPU of this run")
