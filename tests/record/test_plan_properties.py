"""Properties of plans: exactly the combinations asked for, and every value one argument, untouched."""

import csv
import io
import itertools
import shlex
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.record.batch.plan import RunsEntry, read_plan, sweep
from nsyswrap.record.batch.plan.toml_table import Template

# What can stand in a command line: everything but zero bytes; and names of parameters.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
ODD = st.one_of(
    TEXT, st.sampled_from(["{n}", "{{n}}", "a b", "'", '"', "\n", "${n}", "\\", "--n={n}", "", "#", "é"])
)
NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,5}", fullmatch=True).filter(lambda name: name != "repeat")
GRIDS = st.dictionaries(NAMES, st.lists(ODD, min_size=1, max_size=4, unique=True), min_size=1, max_size=3)


def quoted(text: str) -> str:
    """Return a TOML string, every character escaped."""
    return '"' + "".join(f"\\U{ord(character):08x}" for character in text) + '"'


def in_csv(values: list[str]) -> str:
    row = io.StringIO()
    csv.writer(row, quoting=csv.QUOTE_ALL, lineterminator="").writerow(values)
    return row.getvalue()


@given(GRIDS, st.lists(ODD, min_size=1, max_size=3, unique=True), st.integers(1, 3))
def test_a_file_makes_exactly_the_cross_product(
    grid: dict[str, list[str]], points: list[str], repeat: int
) -> None:
    command = ["prog", *(f"--{name}={{{name}}}" for name in grid), "{P}"]
    lines = [
        "[[runs]]",
        f"command = {quoted(shlex.join(command))}",
        f"repeat = {repeat}",
        *(f"grid.{name} = [{', '.join(map(quoted, values))}]" for name, values in grid.items()),
        f"points = [{', '.join(f'{{P = {quoted(point)}}}' for point in points)}]",
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.toml"
        path.write_text("\n".join(lines))
        specs = read_plan(path).specs
    expected = [
        (
            "prog",
            *(f"--{name}={value}" for name, value in zip(grid, values, strict=False)),
            *filter(None, values[-1:]),
        )
        for _ in range(repeat)
        for values in itertools.product(*grid.values(), points)
    ]
    assert [spec.command for spec in specs] == [tuple(filter(None, words)) for words in expected]
    assert [tuple(spec.parameters.values()) for spec in specs[: len(expected) // repeat]] == list(
        itertools.product(*grid.values(), points)
    )
    assert len({spec.name for spec in specs}) == len({spec.key for spec in specs}) == len(specs)
    assert all("\n" not in spec.label for spec in specs)


@given(GRIDS)
def test_a_sweep_makes_exactly_the_cross_product(grid: dict[str, list[str]]) -> None:
    typed = [f"{name}={in_csv(values)}" for name, values in grid.items()]
    block = RunsEntry("sweep", command=("prog", *(f"{{{name}}}" for name in grid)))
    specs = sweep(block, typed).specs
    expected = [tuple(filter(None, values)) for values in itertools.product(*grid.values())]
    assert [spec.command[1:] for spec in specs] == expected


@given(st.lists(st.tuples(st.text(st.characters(exclude_characters="{}")), ODD), max_size=4), ODD)
def test_values_are_put_between_the_texts_and_not_looked_into(
    pieces: list[tuple[str, str]], last: str
) -> None:
    names = [f"p{i}" for i in range(len(pieces))]
    plain = [text.rstrip("$") for text, _ in pieces]
    word = "".join(f"{text}{{{name}}}" for text, name in zip(plain, names, strict=True))
    texts = {name: value for name, (_, value) in zip(names, pieces, strict=True)}
    whole = "".join(text + value for text, (_, value) in zip(plain, pieces, strict=True))
    assert Template(word).fill(texts) == whole
    assert Template("{last}").fill({"last": last}) == last


@given(TEXT)
def test_a_word_without_names_stays_as_it_is(word: str) -> None:
    template = Template(word)
    if not template.names and "{{" not in word:
        assert template.fill({}) == word
