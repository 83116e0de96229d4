"""The conditions of a run on the page."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from conditioned import H200, MS, POWER, around, idle, recorded, sample
from tiny_export import everything, kernel, opened

from nsyswrap.api import CaptureReader
from nsyswrap.base.run_facts import Conditions, Git, Host
from nsyswrap.render.page import render
from nsyswrap.render.page.html import Subject
from nsyswrap.render.page.sections.summary import CONDITIONS

# As in tests/analysis/test_conditions.py: 19 samples, from 1.2 s to 3.0 s.
WORK = kernel("k", 1050 * MS, 2950 * MS)
FACTS = Conditions(
    (replace(H200, mig=False, ecc=True),),
    Host("gpu07", "Xeon Platinum 8480", 64, "performance", (1.2, 3.4)),
    {"torch": "2.9.1", "cudnn": "9.10"},
    Git("0123456789abcdef", dirty=True),
)
SAMPLES = around([sample(1100 + 100 * i, 1200 + i, 680 + i, POWER if i > 10 else 0) for i in range(20)])


def markup(**captures: CaptureReader) -> str:
    made = CONDITIONS.make(Subject(captures))
    assert made is not None
    return made


def texts(html: str) -> list[str]:
    return [text for text in re.split(r"<[^>]*>", html) if text]


def test_a_card_for_the_gpu_and_lines_on_the_machine(tmp_path: Path) -> None:
    html = markup(x=recorded(tmp_path / "run", [WORK], SAMPLES, FACTS))
    assert texts(html) == [
        *("Conditions", "GPU 0 · NVIDIA H200"),
        *("SM clock", "1210 of 1980 MHz", "Memory clock", "3201 MHz", "Power", "690 of 700 W"),
        *(
            "Temperature",
            "50 °C",
            "Throttled",
            "47.4 %",
            "medians of 19 samples while it worked · MIG off · ECC on",
        ),
        *("SM clock over 4.0 s, at most 1219 MHz", "Power over 4.0 s, at most 699 W"),
        "node gpu07 · Xeon Platinum 8480, 64 cores · CPU governor performance · load 1.2 before, 3.4 after",
        "torch 2.9.1 · cudnn 9.10 · commit 0123456789ab-dirty",
    ]
    assert '<dt title="from 1201 to 1219">SM clock</dt>' in html
    assert '<dt title="power limit 47.4 %">Throttled</dt>' in html


def test_a_curve_goes_from_the_first_sample_to_the_last(tmp_path: Path) -> None:
    samples = [sample(0, 500), sample(1000, 1000), sample(2000, 750)]
    html = markup(x=recorded(tmp_path / "run", [WORK], samples, FACTS))
    assert '<polyline points="0.0,20.0 150.0,0.0 300.0,10.0">' in html  # 300 wide, 40 high, 0 at the top
    assert "too few samples while it worked" in html


def test_a_curve_of_a_long_run_has_few_points(tmp_path: Path) -> None:
    samples = [sample(100 * i, 1000 + i % 2) for i in range(10_000)]
    html = markup(x=recorded(tmp_path / "run", [WORK], samples, FACTS))
    [points, _] = re.findall(r'points="([^"]*)"', html)
    assert len(points.split()) == 300


@pytest.mark.parametrize("values", [["", ""], [0, 0], [1980]])
def test_without_values_there_is_no_curve(tmp_path: Path, values: list[object]) -> None:
    samples = [(100 * i, 0, value, "", "", "", "") for i, value in enumerate(values)]
    assert "<svg" not in markup(x=recorded(tmp_path / "run", [WORK], samples, FACTS))


def test_what_is_not_known_is_left_out(tmp_path: Path) -> None:
    html = markup(x=recorded(tmp_path / "run", [WORK], None, Conditions((H200,))))
    assert texts(html) == [
        "Conditions",
        "Clocks unknown: conditions.csv cannot be read: No such file or directory.",
    ]


def test_a_page_without_conditions_has_no_such_section(tmp_path: Path) -> None:
    capture = opened(tmp_path, *everything())
    assert CONDITIONS.make(Subject({"x": capture})) is None
    assert 'href="#conditions"' not in render({"x": capture})


def test_several_runs_have_their_labels(tmp_path: Path) -> None:
    without = opened(tmp_path, WORK)
    runs = {name: recorded(tmp_path / name, [WORK], [idle(0)], FACTS) for name in ("a", "b")}
    html = markup(**runs, c=without)
    assert re.findall(r"<h3>(.*?)</h3>", html) == ["'a'", "'b'"]


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\x1b[2J" + "x" * 10_000
    facts = Conditions(
        (replace(H200, name=evil),),
        Host(evil, evil, 1, evil, (1.0,) * 1000),
        {f"{evil}{i}": evil for i in range(100)},
        Git(evil, dirty=False),
    )
    html = markup(x=recorded(tmp_path / "run", [WORK], SAMPLES, facts))
    assert "<script" not in html
    assert "\x1b" not in html
    assert len(html) < 20_000
