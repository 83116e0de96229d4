"""The kernel summary as one writes it by hand with pandas, and writes it well: grouped on ids, names last.

python tests/bench/with_pandas.py EXPORT OUT.csv
"""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pandas as pd

_KERNELS = 'SELECT demangledName AS id, "end" - start AS duration FROM CUPTI_ACTIVITY_KIND_KERNEL'
_NAMES = "SELECT id, value AS name FROM StringIds"


def summary(kernels: pd.DataFrame, names: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of cuda_gpu_kern_sum in their order, unrounded."""
    by_id = kernels.groupby("id")["duration"]
    table = by_id.agg(["sum", "count", "mean", "median", "min", "max", "std"]).fillna(0).join(names)
    table.insert(0, "percent", 100 * table["sum"] / table["sum"].sum())
    return table.sort_values(["sum", "count", "name"], ascending=[False, True, True])


if __name__ == "__main__":
    export, out = sys.argv[1:]
    with closing(sqlite3.connect(f"{Path(export).resolve().as_uri()}?mode=ro", uri=True)) as db:
        frame = summary(pd.read_sql(_KERNELS, db), pd.read_sql(_NAMES, db, index_col="id"))
    frame.to_csv(out, index=False)
