"""Events and columns in pandas. Imported only when somebody asks for a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from nsyswrap.base.missing import MISSING
from nsyswrap.capture import schema
from nsyswrap.capture.global_ids import process_ids, thread_ids

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture


def events_frame(capture: Capture, kind: str) -> pd.DataFrame:
    """Return one row per event: ``start_ns``, ``duration_ns``, then the kind's fields."""
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
    if "text_id" in frame:  # NVTX: a registered string, or the text itself
        registered, plain = frame.pop("text_id"), frame.pop("text")
        frame["name"] = np.where(registered == None, plain, registered)  # noqa: E711 - of each element
    frame.update(_short_ids(columns))
    return pd.DataFrame(frame)


def pandas_values(values: Any) -> Any:  # noqa: ANN401 - an array or a list of texts
    """Integers stay integers: a nullable column becomes Int64 instead of passing through floats."""
    if isinstance(values, np.ndarray) and values.dtype == np.int64 and (missing := values == MISSING).any():
        return pd.arrays.IntegerArray(np.where(missing, 0, values), missing)
    return values


def _texts(capture: Capture, ids: NDArray[Any]) -> NDArray[Any]:
    distinct, positions = np.unique(ids, return_inverse=True)
    texts = np.empty(len(distinct), dtype=object)
    texts[:] = [capture.text(int(i)) for i in distinct]
    return texts[positions]


def _short_ids(columns: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """process_id and thread_id as the operating system numbers them."""
    source = columns.get("global_tid", columns.get("global_pid"))
    if source is None:
        return {}
    ids = {"process_id": process_ids(source)}
    if "global_tid" in columns:
        ids["thread_id"] = thread_ids(source)
    return {name: pandas_values(values) for name, values in ids.items()}
