"""Waiting takes under 1 % of a core, by a clock of the test."""

from __future__ import annotations

import pytest

from nsyswrap.record.batch import folder


@pytest.mark.parametrize(("cost_s", "settled_s"), [(0.01, 30), (0.1, 120), (0.5, 600)])
def test_looks_at_a_batch_take_under_one_percent_of_a_core(
    monkeypatch: pytest.MonkeyPatch, cost_s: float, settled_s: float
) -> None:
    """Each look takes the same CPU time. The first ones follow each other, to show runs that end at once."""
    now_s = cpu_s = before_s = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    monkeypatch.setattr(folder, "_cpu_s", lambda: cpu_s)
    pauses, looks = folder.Pause(), []
    while now_s < settled_s + 3600:
        cpu_s += cost_s
        looks.append(pauses.seconds())
        now_s += cost_s + looks[-1]
        before_s = cpu_s if now_s < settled_s else before_s
    assert looks[:3] == [1, 1, 1]
    assert cpu_s - before_s < 0.01 * (now_s - settled_s)
    assert max(looks) <= max(15, cost_s / 0.008)
