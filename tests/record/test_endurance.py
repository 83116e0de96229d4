"""A few of the runs that tests/support/endurance.py makes by the hundred, killed or repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from endurance import Moment, killed, killed_in_the_end, moments, repeated

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.nsys, pytest.mark.usefixtures("nsys")]


@pytest.mark.parametrize("moment", moments(seed=12, count=8)[2:], ids=str)
def test_a_kill_breaks_no_promise(tmp_path: Path, environment: dict[str, str], moment: Moment) -> None:
    assert killed(moment, tmp_path / "run", environment) == []


def test_a_kill_after_the_status_leaves_nothing(tmp_path: Path, environment: dict[str, str]) -> None:
    assert killed_in_the_end(tmp_path / "run", environment) == []


def test_a_run_leaves_nothing_behind(tmp_path: Path, environment: dict[str, str]) -> None:
    assert repeated(3, tmp_path, environment) == []
