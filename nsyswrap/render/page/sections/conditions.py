"""The conditions of the runs: clock, power and temperature of each GPU, the machine, and the versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.conditions import FEWEST_SAMPLES, RunConditions, WorkingGpu, run_conditions_of
from nsyswrap.base.run_facts import Gpu, Host
from nsyswrap.base.text import counted, shorten, without_folders
from nsyswrap.base.units import percent
from nsyswrap.render.page.html import Markup, Section, element, joined, section
from nsyswrap.render.page.subject import Subject

_WIDTH, _HEIGHT = 300, 40  # of a curve, in its own units
_MOST_POINTS = 300
_MOST_VERSIONS = 20
_TEXT_WIDTH = 60


def conditions(subject: Subject) -> Markup | None:
    """Return a card for each GPU that worked, and a line on the machine; None without recorded conditions."""
    runs = {label: run_conditions_of(capture) for label, capture in subject.captures.items()}
    parts = [_run(subject, label, run) for label, run in runs.items() if run]
    return section("conditions", "Conditions", *parts) if parts else None


def _run(subject: Subject, label: str, run: RunConditions) -> Markup:
    cards = [_card(gpu) for gpu in run.gpus]
    return joined(
        (
            element("h3", f"'{label}'") if subject.several else None,
            element("div", *cards, class_="cards") if cards else None,
            element("p", f"Clocks unknown: {run.unknown}.", class_="note") if run.unknown else None,
            *(element("p", text, class_="note") for text in _facts(run)),
        )
    )


def _card(gpu: WorkingGpu) -> Markup:
    figures = list(_figures(gpu)) if gpu.count >= FEWEST_SAMPLES else []
    rule = f"medians of {gpu.count:,} samples" if figures else "too few samples"
    return element(
        "article",
        element("h4", f"GPU {gpu.gpu.index} · {_short(gpu.gpu.name or 'name unknown')}"),
        element("dl", *(_figure(*figure) for figure in figures), class_="figures") if figures else None,
        element("p", " · ".join((f"{rule} while it worked", *_modes(gpu.gpu))), class_="note"),
        _curve("SM clock", "MHz", gpu.seconds, gpu.samples["sm_mhz"]),
        _curve("Power", "W", gpu.seconds, gpu.samples["power_mw"] / 1000),
        class_="card",
    )


def _modes(gpu: Gpu) -> Iterator[str]:
    for name, mode in (("MIG", gpu.mig), ("persistence mode", gpu.persistence), ("ECC", gpu.ecc)):
        if mode is not None:
            yield f"{name} {'on' if mode else 'off'}"


def _figures(gpu: WorkingGpu) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and explanation of each figure that the GPU reported."""
    facts = gpu.gpu
    limit = f" of {facts.power_limit_w:.0f}" if facts.power_limit_w else ""
    for name, spread, unit in (
        ("SM clock", gpu.sm_mhz, f" of {facts.max_sm_mhz} MHz" if facts.max_sm_mhz else " MHz"),
        ("Memory clock", gpu.memory_mhz, " MHz"),
        ("Power", gpu.power_w, f"{limit} W"),
        ("Temperature", gpu.temperature_c, " °C"),
    ):
        if spread:
            yield name, f"{spread.median:.0f}{unit}", f"from {spread.least:.0f} to {spread.most:.0f}"
    if gpu.throttled_percent is not None:
        reasons = ", ".join(f"{name} {percent(share)}" for name, share in (gpu.throttled or {}).items())
        yield "Throttled", percent(gpu.throttled_percent), reasons or "in no sample"


def _figure(name: str, value: str, explanation: str) -> Markup:
    return element("div", element("dt", name, title=explanation), element("dd", value))


def _curve(name: str, unit: str, seconds: NDArray[Any], values: NDArray[Any]) -> Markup | None:
    """Return a curve of all samples of a GPU, from 0 to the largest value; None without values."""
    known = ~np.isnan(values)
    if known.sum() <= 1 or not values[known].max():
        return None
    x, y = (_thinned(column[known]) for column in (seconds, values))
    most = values[known].max()
    left, length = x[0], x[-1] - x[0] or 1.0
    places = zip(_WIDTH * (x - left) / length, _HEIGHT * (1 - y / most), strict=True)
    line = element("polyline", points=" ".join(f"{px:.1f},{py:.1f}" for px, py in places))
    title = f"{name} over {length:.1f} s, at most {most:.0f} {unit}"
    box = {"viewBox": f"0 -1 {_WIDTH} {_HEIGHT + 2}", "preserveAspectRatio": "none"}
    svg = element("svg", line, class_="curve", role="img", aria_label=title, **box)
    return joined((element("p", title, class_="note"), svg))


def _thinned(values: NDArray[Any]) -> NDArray[Any]:
    """Return the mean of equal parts, at most _MOST_POINTS."""
    parts = np.array_split(values, min(len(values), _MOST_POINTS))
    return np.array([part.mean() for part in parts])


def _facts(run: RunConditions) -> Iterator[str]:
    """Yield a line on the machine, and one on the program."""
    versions = list(run.facts.versions.items())[:_MOST_VERSIONS]
    program = [f"{_short(name)} {_short(version)}" for name, version in versions]
    program += [f"commit {_short(run.facts.git.label)}"] if run.facts.git else []
    lines = (list(_host(run.facts.host)), program)
    yield from (" · ".join(parts) for parts in lines if parts)


def _host(host: Host) -> Iterator[str]:
    if host.node:
        yield f"node {_short(host.node)}"
    cores = counted(host.cores, "cores") if host.cores else ""
    if host.cpu or cores:
        yield ", ".join(filter(None, (_short(host.cpu), cores)))
    if host.governor:
        yield f"CPU governor {_short(host.governor)}"
    if host.load:
        times = zip(host.load, ("before", "after"), strict=False)
        yield f"load {', '.join(f'{load:.1f} {time}' for load, time in times)}"


def _short(text: str) -> str:
    return shorten(without_folders(text), _TEXT_WIDTH)


SECTION = Section("conditions", "Conditions", conditions)
