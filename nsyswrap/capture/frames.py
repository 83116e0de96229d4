"""Make pandas DataFrames of events; imported only when a DataFrame is requested."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from nsyswrap.base.constants import MISSING
from nsyswrap.capture import schema
from nsyswrap.capture.selection import process_ids, thread_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture


def events_frame(capture: Capture, kind: str) -> pd.DataFrame:
    """Return one row per event: ``start_ns``, ``duration_ns``, then the other fields of the kind."""
    fields = schema.events(kind).fields
    columns = capture.columns(kind, *fields)
    frame: dict[str, Any] = {}
    for field, spec in fields.items():
        values = capture.name_ids(kind) if field == "name" else columns[field]
        frame[field] = _texts(capture, values) if spec.kind == "string" else pandas_values(values)
        if field == "start_ns" and "end_ns" in fields:
            open_ended = columns["end_ns"] == MISSING
            frame["duration_ns"] = pandas_values(
                np.where(open_ended, MISSING, columns["end_ns"] - columns["start_ns"])
            )
    if "text_id" in frame:  # NVTX names: a registered string or a text
        registered, plain = frame.pop("text_id"), frame.pop("text")
        frame["name"] = np.where(pd.isna(registered), plain, registered)
    frame.update(_short_ids(columns))
    return pd.DataFrame(frame)


def pandas_values(
    values: NDArray[Any] | Sequence[object],
) -> NDArray[Any] | Sequence[object] | pd.arrays.IntegerArray:
    """Return values for a pandas column; integers with MISSING become nullable Int64, not floats."""
    if isinstance(values, np.ndarray) and values.dtype == np.int64 and (missing := values == MISSING).any():
        return pd.arrays.IntegerArray(np.where(missing, 0, values), missing)
    return values


def _texts(capture: Capture, ids: NDArray[Any]) -> NDArray[Any]:
    known, positions = np.unique(ids, return_inverse=True)
    texts = np.empty(len(known), dtype=object)
    texts[:] = [capture.text(int(i)) for i in known]
    return texts[positions]


def _short_ids(columns: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return ``process_id`` and ``thread_id``, the numbers of the operating system."""
    source = columns.get("global_tid", columns.get("global_pid"))
    if source is None:
        return {}
    ids = {"process_id": process_ids(source)}
    if "global_tid" in columns:
        ids["thread_id"] = thread_ids(source)
    return {name: pandas_values(values) for name, values in ids.items()}
