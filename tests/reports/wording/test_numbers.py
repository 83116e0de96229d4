"""Counts in the sentences of findings."""

import pytest

from nsyswrap.reports.wording.numbers import filled


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ({"gaps": 2, "steps": 19}, "2 in 19 steps"),
        ({"gaps": 1, "steps": 2}, "1 in 2 steps"),
        ({"gaps": 7, "steps": 3}, "2.33 per step"),
        ({"gaps": 999_600, "steps": 1000}, "1,000 per step"),
        ({"gaps": 6990, "steps": 3}, "2,330 per step"),
        ({"gaps": 6990}, "6,990"),
    ],
)
def test_counts_per_step(numbers: dict[str, int], text: str) -> None:
    assert filled("{gaps:per step}", numbers) == text


def test_one_launch_is_no_launche() -> None:
    assert filled("{launches:repeated launches}", {"launches": 1}) == "1 repeated launch"
