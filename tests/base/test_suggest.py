"""Suggestions for names that do not exist."""

from __future__ import annotations

import pytest

from nsyswrap.base.text import did_you_mean, unknown


@pytest.mark.parametrize(
    ("name", "names", "suggested"),
    [
        (
            "cuda_gpu_kernsum",
            ["cuda_gpu_kern_sum", "cuda_gpu_kern_gb_sum"],
            "did you mean 'cuda_gpu_kern_sum'?",
        ),
        ("stap", ["step", "stop", "epoch"], "did you mean 'stop' or 'step'?"),  # 3 of 4 letters each
        ("FORWARD", ["forward", "backward"], "did you mean 'forward'?"),
        ("step", ["step", "steps"], "did you mean 'steps'?"),  # the name itself is no suggestion
        ("zzz", ["step"], ""),
        ("step", [], ""),
    ],
)
def test_the_most_similar_names_are_suggested(name: str, names: list[str], suggested: str) -> None:
    assert did_you_mean(name, names) == suggested


def test_without_a_similar_name_the_hint_lists_all() -> None:
    assert unknown("plot", "zzz", ("timeline", "copies")) == ("no plot named 'zzz'", "plots: timeline copies")
    assert unknown("plot", "zzz", ("timeline",), "see --help") == ("no plot named 'zzz'", "see --help")
    assert unknown("plot", "timelin", ("timeline",)) == (
        "no plot named 'timelin'",
        "did you mean 'timeline'?",
    )
