"""Write a copy of an export with the rows of its tables in another order: nsys promises none."""

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path


def shuffled(export: Path, target: Path, seed: int = 1) -> Path:
    """Write a copy of an export in which the rows of each table have random places."""
    shutil.copy(export, target)
    order = random.Random(seed)  # noqa: S311 - no secret
    with closing(sqlite3.connect(target)) as db, db:
        db.text_factory = bytes
        tables = [
            name.decode() for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        for table in tables:
            columns = db.execute(f'PRAGMA table_info("{table}")').fetchall()
            cells = ["CAST(? AS TEXT)" if kind == b"TEXT" else "?" for _, _, kind, *_ in columns]
            rows = db.execute(f'SELECT * FROM "{table}"').fetchall()  # noqa: S608 - names from the export
            order.shuffle(rows)
            db.execute(f'DELETE FROM "{table}"')  # noqa: S608
            db.executemany(f'INSERT INTO "{table}" VALUES ({", ".join(cells)})', rows)  # noqa: S608
    return target
