"""A capture's identity: copies are the same capture, other recordings are not."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from tiny_export import kernel, row, write

from nsyswrap.base.run_folder import EXPORT
from nsyswrap.capture.open import identity_of


def test_a_copy_with_another_time_is_the_same_capture(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    write(tmp_path / "run" / EXPORT, kernel("k", 0, 10))
    os.utime(tmp_path / "run" / EXPORT, (1, 1))
    shutil.copytree(tmp_path / "run", tmp_path / "copy", copy_function=shutil.copyfile)
    found = {identity_of(tmp_path / name) for name in ("run", "copy", f"run/{EXPORT}")}
    assert len(found) == 1
    assert None not in found


def test_recordings_of_the_same_size_differ_by_their_metadata(tmp_path: Path) -> None:
    files = [
        write(
            tmp_path / f"{second}.sqlite",
            *(kernel("k", at, at + 10, at) for at in range(1000)),
            row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=second),
        )
        for second in (1, 2)
    ]
    sizes, hashes = zip(*filter(None, map(identity_of, files)), strict=True)
    assert len(set(sizes)) == 1
    assert len(set(hashes)) == 2


def test_a_changed_capture_of_the_same_size_is_another(tmp_path: Path) -> None:
    file = write(tmp_path / "a.sqlite", kernel("k", 0, 10))
    before = identity_of(file)
    with closing(sqlite3.connect(file)) as db:
        db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 11")
        db.commit()
    after = identity_of(file)
    assert before is not None
    assert after is not None
    assert before[0] == after[0]
    assert before != after


def test_what_is_no_database_has_an_identity_too(tmp_path: Path) -> None:
    for name in ("a.sqlite", "b.nsys-rep"):
        (tmp_path / name).write_text("text\n")
        assert identity_of(tmp_path / name) is not None
    (tmp_path / "empty.sqlite").touch()
    assert identity_of(tmp_path / "empty.sqlite") is not None
    assert identity_of(tmp_path / "none") is None
