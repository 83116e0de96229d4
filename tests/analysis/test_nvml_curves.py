"""Power and temperature that nsys' NVML plugin sampled."""

from pathlib import Path

from tiny_export import changed, kernel, nvml_samples, opened, row

from nsyswrap.analysis.usage import nvml_curves_of

WORK = kernel("k", 0, 1)


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_values_come_in_order_of_time_with_their_units(tmp_path: Path) -> None:
    first, last = nvml_samples((74, 36), (310, 41))[2:4]
    rows = [one for one in nvml_samples((74, 36), (310, 41)) if one not in (first, last)]
    capture = opened(tmp_path, WORK, *rows, last, first)
    power, temperature = nvml_curves_of(capture)
    assert (power.source, power.name, power.unit) == (0, "power", "W")
    assert (power.times_ns.tolist(), power.values.tolist()) == ([0, 10], [74, 310])
    assert (temperature.name, temperature.unit) == ("temperature", "\N{DEGREE SIGN}C")
    assert temperature.values.tolist() == [36, 41]


def test_each_type_is_a_source_and_signed_values_count(tmp_path: Path) -> None:
    second = [
        changed(one, intVal=-5, uintVal=None) if "uintVal" in one.cells else one
        for one in nvml_samples((0, 0), type_id=9)
    ]
    found = nvml_curves_of(opened(tmp_path, WORK, *nvml_samples((74, 36)), *second))
    values = [(one.source, *one.values.tolist()) for one in found]
    assert values == [(0, 74), (0, 36), (1, -5), (1, -5)]


def test_events_of_other_tracers_are_no_curves(tmp_path: Path) -> None:
    """A field that is called Power alone can be anything, and so can a value without a name or a sample."""
    other = [
        row("GENERIC_EVENT_TYPE_FIELDS", typeId=3, fieldIdx=0, fieldNameId="Power"),
        row("GENERIC_EVENTS", genericEventId=1, timestamp=5, typeId=3),
        row("GENERIC_EVENT_DATA", genericEventId=1, fieldIdx=0, intVal=None, uintVal=4),
    ]
    lost = row("GENERIC_EVENT_DATA", genericEventId=99_999, fieldIdx=0, intVal=None, uintVal=4)
    assert nvml_curves_of(opened(made(tmp_path / "other"), WORK, *other)) == []
    power, _ = nvml_curves_of(opened(made(tmp_path / "both"), WORK, *other, *nvml_samples((74, 36)), lost))
    assert power.values.tolist() == [74]


def test_nothing_is_said_without_samples(tmp_path: Path) -> None:
    assert nvml_curves_of(opened(made(tmp_path / "none"), WORK)) == []
    assert nvml_curves_of(opened(made(tmp_path / "names"), WORK, *nvml_samples())) == []
