"""The tables and the JSON of a comparison: all rows for programs, those that cost most for people."""

import csv
import io
import json

import pytest
from jsonschema import Draft202012Validator
from made_comparison import SLOWER, UNJUDGED, comparison, judged, pair
from made_runs import exact_row, made_side
from recorded import ROOT

from nsyswrap.analysis.compare.compare import compare
from nsyswrap.analysis.compare.judgement import judge
from nsyswrap.analysis.compare.model import GROUPS, Key, Obstacle, Pair, RowFigures, SlowdownLimits
from nsyswrap.analysis.compare.pairing import PairedRows
from nsyswrap.render.formats.csv import delimited
from nsyswrap.render.formats.text import table_lines
from nsyswrap.reports.compare.as_data import as_dict
from nsyswrap.reports.compare.tables import SCHEMA, all_rows, group_table, row_name

VALIDATOR = Draft202012Validator(json.loads((ROOT / "docs" / "compare.schema.json").read_text("utf-8")))


def shown(*pairs: object, **more: object) -> list[dict[str, object]]:
    compared = comparison(*pairs, **more)  # type: ignore[arg-type]
    [group] = {one.key.group for one in compared.pairs}
    table = group_table(compared, group, {one.key: one.key.name for one in compared.pairs})
    return [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.rows()]


def test_a_kernel_for_people() -> None:
    kernel = pair("kernel", "k", 1000.0, 1080.0, SLOWER, detail="grid 1 2 3, block 32 1 1", mode=2, count=40)
    assert shown(kernel) == [
        {
            "name": "k",
            "detail": "1 2 3, 32 1 1, mode 2",
            "base_sum_ns": pytest.approx(2000),  # two launches in each of 20 steps
            "new_sum_ns": pytest.approx(2160),
            "step_cost_ns": pytest.approx(160.0),
            "new_count": 40,
            "each": "1.00 → 1.08 µs",
            "change_percent": pytest.approx(8.0),
            "interval": "+7.1 to +8.9 %",
            "cost_ns": pytest.approx(3200.0),
            "verdict": "slower",
        }
    ]


def test_the_change_is_that_of_the_times_beside_it() -> None:
    """Base and New are geometric means; the median of New is 167 µs."""
    base, new = (tuple(exact_row(us * 1e3) for us in runs) for runs in ((100, 150, 225), (320, 150, 500 / 3)))
    key = Key("kernel", "k")
    [row] = shown(Pair(key, base, new, judge(PairedRows(key, base, new), SlowdownLimits())))
    assert row["each"] == "150 → 200 µs"
    assert row["change_percent"] == pytest.approx(100 / 3)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (Key("budget", "gemm_kernel"), "gemm"),
        (Key("budget", "of another version"), "of another version"),
        (Key("kernel", "gemm_kernel"), "gemm_kernel"),
    ],
)
def test_states_alone_have_words(key: Key, words: str) -> None:
    assert row_name(key) == words


def test_columns_without_values_are_left_out() -> None:
    [row] = shown(pair("api", "cudaMalloc", RowFigures(3, 30.0, 10.0), RowFigures(3, 36.0, 12.0), UNJUDGED))
    assert not {"interval", "verdict", "step_cost_ns"} & row.keys()
    assert row["change_percent"] == pytest.approx(20.0)


def test_first_launches_have_a_mean() -> None:
    [row] = shown(pair("launch", "first", RowFigures(2, 4000.0), RowFigures(2, 5000.0), UNJUDGED))
    assert (row["base_sum_ns"], row["each"], row["change_percent"]) == (
        4000.0,
        "2.00 → 2.50 µs",
        pytest.approx(25.0),
    )


def test_copies_have_their_rate() -> None:
    copy = pair(
        "copy", "H2D", RowFigures(1, 1e6, 1e6, size_bytes=10**7), RowFigures(1, 2e6, 2e6, size_bytes=10**7)
    )
    assert shown(copy)[0]["rate"] == "10.0 → 5.00 GB/s"


@pytest.mark.parametrize("by_step", [True, False])
def test_sums_are_first_and_a_changed_count_or_size_is_never_dropped(*, by_step: bool) -> None:
    """Half as long each, and six times as many: the sum tells that they cost more, the count tells why."""
    steps = 20 if by_step else 0
    more = {"steps": steps, "size_bytes": 84 * 10**6}
    base, new = exact_row(4e5, 48, **more), exact_row(2e5, 302, **{**more, "size_bytes": 20 * 10**6})
    table = group_table(
        comparison(pair("copy", "H2D pinned", base, new)), "copy", {Key("copy", "H2D pinned"): "H2D"}
    )
    unit = "Step" if by_step else "Run"
    assert table.schema.title == f"Copies, per {unit.lower()}"
    assert [column.header for column in table.columns][1:6] == [
        f"Base/{unit}",
        f"New/{unit}",
        f"Cost/{unit}",
        "Count",
        "Bytes",
    ]
    header, row = (str(line) for line in table_lines(table, 80)[1:3])
    assert header.split()[:4] == ["Copy", f"Base/{unit}", f"New/{unit}", f"Cost/{unit}"]
    assert "48 → 302" in row
    assert "84.0 → 20.0 MB" in row
    assert ("+2.06 ms" if by_step else "+41.2 ms") in row


def test_states_of_a_step_are_sorted_by_their_cost_in_a_step() -> None:
    """The base has 10 steps, the new side 100: totals would say that all became slower."""
    small = pair("budget", "idle_host", RowFigures(10, 1e6, 1e5, 0, 1e5), RowFigures(100, 1e7, 1e5, 0, 1e5))
    large = pair("budget", "idle_launch", RowFigures(10, 1e5, 1e4, 0, 1e4), RowFigures(100, 2e6, 2e4, 0, 2e4))
    assert [row["name"] for row in shown(small, large)] == ["idle_launch", "idle_host"]
    assert all("cost_ns" not in row for row in shown(small, large))


def test_rows_of_one_side_have_no_change() -> None:
    rows = shown(pair("kernel", "a", None, 10.0), pair("kernel", "b", 20.0, None))
    assert [(row["base_sum_ns"], row["new_sum_ns"], row["verdict"]) for row in rows] == [
        (20.0, None, "removed"),
        (None, 10.0, "added"),
    ]
    assert all(row["change_percent"] is None for row in rows)


def test_the_csv_has_every_row_with_full_names() -> None:
    name = 'void f<int>("a", b)\x1b[31m'
    compared = comparison(pair("kernel", name, 1.25, 2.5, SLOWER), pair("range", "step/a, b", 5.0, 5.0))
    rows = list(csv.DictReader(io.StringIO(delimited(all_rows(compared), ",", "ns", safe=False))))
    assert [(row["group"], row["name"]) for row in rows] == [("kernel", name), ("range", "step/a, b")]
    assert (rows[0]["base_typical_ns"], rows[0]["new_total_ns"], rows[0]["outcome"]) == (
        "1.25",
        "50.0",
        "slower",
    )
    assert rows[0]["low_percent"].startswith("7.09")


def test_the_json_is_that_of_the_schema() -> None:
    cases = [
        compare(made_side("base"), made_side("new", seed=2, factors={"gemm": 1.08})),
        compare(made_side("base", 1, steps=0), made_side("new", 1, steps=0)),
        comparison(pair("kernel", "a", None, 10.0)),
        comparison(
            pair("kernel", "b", 9.0, 10.0, judged("cannot tell", 0.9, 1.2, more_runs=2, why=("few",))),
            obstacles=(Obstacle("GPU", "a", "b"),),
            remarks=("note",),
        ),
    ]
    for compared in cases:
        data = json.loads(json.dumps(as_dict(compared), allow_nan=False))
        VALIDATOR.validate(data)
        assert len(data["rows"]) == len(compared.pairs)
    assert not VALIDATOR.is_valid({**data, "more": 1})


def test_the_schema_names_the_columns_and_groups() -> None:
    row = VALIDATOR.schema["$defs"]["row"]
    assert row["required"] == list(row["properties"]) == [column.name for column in SCHEMA.columns]
    assert row["properties"]["group"]["enum"] == list(GROUPS)


def test_the_headline_is_one_of_the_rows() -> None:
    data = as_dict(comparison(pair("step", "'s'", 5e6, 6e6, SLOWER), pair("kernel", "k", 1e3, 1e3)))
    assert data["outcome"] == "slower"
    assert data["headline"] in data["rows"]
    assert data["headline"]["step_cost_ns"] == pytest.approx(1e6)
    assert data["conclusion"][0].startswith("Slower: step 's'")


def test_the_conclusion_names_a_cause_in_words() -> None:
    data = as_dict(comparison(pair("step", "'s'", 5e6, 6e6, SLOWER), pair("budget", "idle_host", 1e6, 2e6)))
    assert data["conclusion"][1].startswith("Nearly all of it: GPU idle, host code: +1.00 ms")
    assert [row["name"] for row in data["rows"]] == ["'s'", "idle_host"]
