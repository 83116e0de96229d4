"""Texts on a screen: kernel names fit, and different ones stay different; suggestions for unknown names."""

import itertools
import random
import subprocess

import pytest
from rich.cells import cell_len

from nsyswrap.base.text import (
    ascii_layout,
    clip,
    counted,
    did_you_mean,
    natural_key,
    printable,
    quoted,
    screen_width,
    shorten,
    shorten_all,
    unknown,
    without_commands,
    without_folders,
    wrap,
)

TEMPLATE = "void cutlass::Kernel<cutlass::gemm::Gemm<{}>, cutlass::epilogue::Linear<{}, {}>>(T1::Params)"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/u/x.sqlite holds no kernels", "x.sqlite holds no kernels"),
        ("see '/tmp/a b/c.log', /data/x.", "see 'a b/c.log', x."),
        ("--data=/data/x --out runs/a /tmp", "--data=x --out runs/a tmp"),
        ("10 GB/s of a / b, file:/x/y, https://host/a/b", "10 GB/s of a / b, file:y, https://host/a/b"),
        ("both/cuda, ./a/b and ../c, ~/d", "both/cuda, ./a/b and ../c, ~/d"),
        ("step (0)/forward/qkv, [a]/b/c, t<3>/u", "step (0)/forward/qkv, [a]/b/c, t<3>/u"),
        ("a<b<int>>/x/y, t<128>/x/y", "a<b<int>>/x/y, t<128>/x/y"),
        ("sh -c './run >/home/u/log 2>/home/u/err'", "sh -c './run >log 2>err'"),
        (">>/home/u/log 2>>/home/u/err &>/home/u/all", ">>log 2>>err &>all"),
        ("'</script><a href=/h/u/x>'", "'</script><a href=x>'"),
        ("</home/u/x>, (/home/u/x) and [/home/u/x]", "<x>, (x) and [x]"),
        ("[0]/home/u/x, f(1)/scratch2/u/y, {a}/Users/u/z, t<3>/tmp/v", "[0]x, f(1)y, {a}z, t<3>v"),
        ("step (0)/homer/qkv, a/home/u, </tmp>", "step (0)/homer/qkv, a/home/u, </tmp>"),
    ],
)
def test_absolute_paths_become_names(text: str, shown: str) -> None:
    assert without_folders(text) == shown


def test_a_name_that_fits_stays_as_it_is() -> None:
    assert shorten("add", 3) == clip("add", 3) == "add"


def test_the_middle_of_a_long_name_goes() -> None:
    assert shorten("vectorized_elementwise_kernel", 13) == "vectoriz…rnel"


def test_return_type_and_parameters_go_where_they_tell_nothing() -> None:
    assert shorten_all(["void f<int>(T1, (anonymous)(x))", "g()"], 44) == ["f<int>", "g"]


def test_parameters_stay_where_they_tell_names_apart() -> None:
    names = ["add(int, float *)", "add(int, double *)"]
    assert shorten_all(names, 44) == names


def test_the_place_where_names_part_is_shown() -> None:
    names = ["a" * 99 + middle + "b" * 99 for middle in ("xx", "xy")]
    assert shorten_all(names, 20) == ["aaaaaa…aaxxbbbbbbbb…", "aaaaaa…aaxybbbbbbbb…"]


def test_names_that_part_in_too_many_places_get_a_number() -> None:
    names = [("a" * 90).join(bits) for bits in ("000", "001", "010", "011", "100", "101")]
    shown = shorten_all(names, 20)
    assert len(set(shown)) == 6
    assert any(text.endswith("~1") for text in shown)


def test_a_name_that_stands_twice_stays_the_same_twice() -> None:
    assert shorten_all(["f(int)", "g(int)", "f(int)"], 44) == ["f", "g", "f"]


def test_no_names() -> None:
    assert shorten_all([], 44) == []


@pytest.mark.parametrize("width", [8, 20, 30, 44, 100])
@pytest.mark.parametrize(
    "names",
    [
        ["a" * 99 + middle + "b" * 99 for middle in "xyz"],
        ["same" * 50 + str(number) for number in range(300)],
        [str(number) + "same" * 50 for number in range(300)],
        [TEMPLATE.format(*types) for types in itertools.product(["float", "half", "int8"], repeat=3)],
        [("a" * 90).join(bits) for bits in itertools.product("01", repeat=6)],
        ["漢" * length for length in range(1, 60)],
        ["f(" + "int, " * number + "int)" for number in range(40)],
    ],
    ids=["middle", "end", "start", "templates", "six places", "lengths", "parameters"],
)
def test_different_names_stay_different_and_fit(names: list[str], width: int) -> None:
    shown = shorten_all(names, width)
    assert len(set(shown)) == len(set(names))
    assert max(map(cell_len, shown)) <= width


def test_names_of_any_make() -> None:
    dice = random.Random(7)  # noqa: S311 - no secret
    pieces = [
        "void ",
        "kernel<",
        "float",
        "int",
        "::",
        ">(",
        ")",
        "漢字",
        "é",
        "👩‍👩‍👧",
        " ",
        "…",
        "~1",
        "(",
        "x" * 40,
    ]
    for _ in range(200):
        names = ["".join(dice.choices(pieces, k=dice.randrange(1, 12))) for _ in range(12)]
        width = dice.randrange(8, 60)
        shown = dict(zip(names, shorten_all(names, width), strict=True))
        assert len(set(shown.values())) == len(shown)
        assert max(map(cell_len, shown.values())) <= width


def test_wide_characters_count_twice() -> None:
    assert clip("漢字漢字", 8) == "漢字漢字"
    assert clip("漢字漢字", 7) == "漢字漢…"
    assert clip("漢字漢字", 6) == "漢字…"
    assert cell_len(shorten("漢" * 40, 20)) <= 20


def test_control_characters_become_escapes() -> None:
    assert printable("a\x1b[31m\x9b\u202e\n\t\udc9b\u200b漢") == r"a\x1b[31m\x9b\u202e\n\t\x9b\u200b漢"
    assert printable("a\n\tb\r", "\n") == "a\n\\tb\\r"


def test_only_the_styles_of_our_screens_stay() -> None:
    ours, hidden, up = "\x1b[1;35mtitle\x1b[0m", "\x1b[8m", "\x1b[2A"
    assert printable(ours + hidden + up, colors=True) == ours + r"\x1b[8m\x1b[2A"


def test_a_layout_in_ascii_has_the_same_width() -> None:
    with ascii_layout(active=True):
        assert shorten("vectorized_elementwise_kernel", 13) == "vector...rnel"
        assert clip("vectorized", 5) == "ve..."
        assert clip("vectorized", 2) == ".."
        assert printable("漢 20 µs · 2 \u00d7 █▒░…") == r"\u6f22 20 us - 2 x #+...."
    assert clip("vectorized", 5) == "vect…"


def test_nothing_fits_no_width() -> None:
    assert [screen_width(clip("漢字", width)) for width in range(5)] == [0, 1, 1, 3, 4]


def test_a_number_stays_with_its_unit() -> None:
    assert wrap("idle for 12.1 % of it", 14, "  ") == ["idle for", "  12.1 % of it"]
    assert wrap("copies of 4 steps", 11, "  ") == ["copies of 4", "  steps"]


def test_a_number_with_its_noun() -> None:
    assert counted(1_000, "copies") == "1,000 copies"
    assert counted(0, "kernels") == "0 kernels"
    titles = (
        "kernels",
        "copies",
        "CUDA API calls",
        "OS runtime calls",
        "profiler overhead",
        "processes",
        "first launches",
    )
    assert [counted(1, title) for title in titles] == [
        "1 kernel",
        "1 copy",
        "1 CUDA API call",
        "1 OS runtime call",
        "1 profiler overhead",
        "1 process",
        "1 first launch",
    ]


def test_numbers_in_names_sort_by_their_value() -> None:
    names = [
        "r",
        "report",
        "report.0",
        "report.1",
        "report.02",
        "report.2",
        "report.2a",
        "report.10",
        "v2.9",
        "v2.10",
    ]
    as_text = sorted(names)
    assert as_text != names
    assert sorted(as_text, key=natural_key) == names
    paths = ["run/x", "run-9/x", "run-10/a", "run-10/x"]
    assert sorted(["run-10/x", "run-10/a", "run/x", "run-9/x"], key=natural_key) == paths
    assert natural_key("1" * 5000) < natural_key("2" * 5000)  # longer than Python's int takes


def test_what_a_runner_of_github_takes_for_a_command_is_defused() -> None:
    text = "::error::a\n \t::set-env name=A::b\nx ##[add-mask]1\nat::native ##x\nc ::d::"
    assert without_commands(text) == (
        "\\x3a:error::a\n \t\\x3a:set-env name=A::b\nx \\x23#[add-mask]1\nat::native ##x\nc ::d::"
    )
    assert without_commands("###[x ::") == "#\\x23#[x ::"


@pytest.mark.parametrize("word", ["plain", "a b", "line\nbreak", "it's\n\\", "\x1b[2J'"], ids=repr)
def test_a_word_for_bash_stays_on_its_line(word: str) -> None:
    command = ["bash", "-c", f"printf %s {quoted(word)}"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == word
    assert quoted(word).isprintable()


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
