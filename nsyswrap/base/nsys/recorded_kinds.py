"""Which kinds of events an export has, for telling an empty capture."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from nsyswrap.base.sqlite import quoted, read_only, tables_of

if TYPE_CHECKING:
    from pathlib import Path

GPU, CUDA, OTHER = "gpu", "cuda", "other"
_CUPTI = "CUPTI_ACTIVITY_KIND_"
_TABLES = {
    **{f"{_CUPTI}{name}": GPU for name in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")},
    **dict.fromkeys(("NVTX_EVENTS", "OSRT_API", "CUBLAS_EVENTS", "CUDNN_EVENTS"), OTHER),
}
# Of the tables with these prefixes that are not named above.
_PREFIXES = {_CUPTI: CUDA, **dict.fromkeys(("MPI_", "UCX_", "OPENMP_", "SYSCALL"), OTHER)}
_DOMAINS = "WHERE eventType NOT IN (33, 75, 76)"  # NVTX's domains and categories are no events


def recorded_kinds(path: Path) -> frozenset[str]:
    """Return which of GPU, CUDA and OTHER events a complete export has."""
    kinds = set()
    with closing(read_only(path)) as db:
        for name in tables_of(db)[0]:
            of_prefix = (kind for prefix, kind in _PREFIXES.items() if name.startswith(prefix))
            kind = _TABLES.get(name) or next(of_prefix, "")
            where = _DOMAINS if name == "NVTX_EVENTS" else ""
            with suppress(sqlite3.DatabaseError):
                if kind and db.execute(f"SELECT 1 FROM {quoted(name)} {where} LIMIT 1").fetchone():  # noqa: S608 - quoted
                    kinds.add(kind)
    return frozenset(kinds)
