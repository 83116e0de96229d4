"""Kernel names: which class they tell, and what a person reads instead of them."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Cli
from recorded import DOZEN, ROOT, capture_names, run_folder
from sampled import sampled
from tiny_export import kernel, memcpy, opened, write

from nsyswrap.analysis.kernel_names import CLASSES, RULES, classify, distinct_names, read_rules, readable
from nsyswrap.analysis.kernel_names.classes import LEVELS, operation, plain, words
from nsyswrap.api import open_capture
from nsyswrap.base.errors import UsageError
from nsyswrap.base.text import shorten_all
from nsyswrap.render import summary_screen as screen
from nsyswrap.render.formats import text
from nsyswrap.render.names import readable_tables
from nsyswrap.reports.summary import summarize

# Class, what a person reads ("-": the same), and the name.
LINES = (ROOT / "tests" / "data" / "kernel_names.tsv").read_text(encoding="utf-8").splitlines()[1:]
KNOWN = [tuple(line.split("\t")) for line in LINES]
NAMES = [name for _, _, name in KNOWN]
ADD = "void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<float>, X>(int, T2)"
BY_CXXFILT = ADD.replace("(int)4", "4")
TIMES = "\u00d7"


@pytest.mark.parametrize(("kind", "shown", "name"), KNOWN)
def test_real_names(kind: str, shown: str, name: str) -> None:
    assert classify(name) == kind
    assert readable(name) == (name if shown == "-" else shown)


@pytest.mark.parametrize("wrapper", ["func_wrapper_t", "BinaryFunctor"])
def test_operations_are_read_inside_of_others_to_a_depth(wrapper: str) -> None:
    def inside(levels: int) -> str:
        return f"{wrapper}<float, " * levels + "at::native::CUDAFunctor_add<float>" + ">" * levels

    assert operation(inside(LEVELS - 1)) == ("add", ["float"])
    with pytest.raises(ValueError, match="nested too deeply"):
        operation(inside(LEVELS))


def test_an_operation_has_the_types_of_its_operands() -> None:
    add = "at::native::CUDAFunctor_add<float>"
    assert operation(f"at::native::BUnaryFunctor<double, c10::Half, bool, {add}>") == (
        "add_scalar",
        ["double", "half"],
    )
    copy = "at::native::CopyFunctor<float, c10::BFloat16, 2, 1, 1>, at::native::Copy<float, c10::BFloat16>"
    metadata = "at::native::TensorListMetadata<2>"
    name = f"void at::native::multi_tensor_apply_kernel<{metadata}, {copy} >(int)"
    assert readable(name) == "elementwise foreach copy<float>"
    assert (words("GeluCUDAKernelImpl"), words("aKernelb")) == ("gelu", "a_kernelb")


def test_there_is_a_real_name_of_every_class_and_for_every_rule() -> None:
    assert {kind for kind, _, _ in KNOWN} == set(CLASSES)
    deciding = {next((rule for rule in RULES if re.search(rule[1], plain(name))), None) for name in NAMES}
    assert set(RULES) <= deciding


def test_the_first_matching_rule_decides_whatever_arguments_follow() -> None:
    """A name is not searched by every rule: they have to agree."""
    begins = [re.split(r"(?=[<(])", name, maxsplit=1)[0] for name in NAMES]
    for shift in (1, 7, 50):
        for begin, other in zip(begins, NAMES[shift:], strict=False):
            name = plain(f"{begin}<{other}, 4>(int)")
            kind = next((kind for kind, pattern in RULES if re.search(pattern, name)), "other")
            assert classify(name) == kind, name


@pytest.fixture
def cpu_limit() -> Iterator[None]:
    """Raise TimeoutError after 20 s of CPU time."""

    def end(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, 20)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.usefixtures("cpu_limit")
@pytest.mark.parametrize("part", ["at::native::elementwise_kernel<", "cutlass_80_", "flash::FlashAttnA<"])
def test_the_time_for_a_name_grows_with_its_length(part: str) -> None:
    """Patterns that try every place of the part need minutes."""
    name = part * (300_000 // len(part))
    assert readable(name) == name
    assert classify(name) in CLASSES


@pytest.mark.parametrize("functor", ["at::native::BinaryFunctor<", "c10::complex<"])
def test_what_is_nested_too_deeply_keeps_its_name(functor: str) -> None:
    name = f"void at::native::elementwise_kernel<4, {functor * 1_000}x{'>' * 1_000}>(int)"
    assert readable(name) == name


def test_no_name_is_too_strange() -> None:
    for name in NAMES:
        for end in range(0, len(name), 11):  # names are cut short by their makers, too
            assert readable(name[:end]) or not end
            assert classify(name[:end]) in CLASSES
    assert (classify(None), classify(""), readable("")) == ("other", "other", "")


@pytest.mark.parametrize(
    "name",
    [
        "vector_add(float *, int)",
        "my::stencil<float, (int)3>(T1 *)",
        "[CUDA memcpy Host-to-Device]",
        "cudaLaunchKernel",
        "void at::native::vectorized_elementwise_kernel",
        "(a name, of / no kind <",
    ],
)
def test_what_is_unknown_stays_as_it_is(name: str) -> None:
    assert readable(name) == name


def test_rules_of_the_users_own_come_first_and_in_order() -> None:
    rules = (("mine", r"^void at::"), ("theirs", "vectorized"))
    assert classify(ADD, rules) == "mine"
    assert classify(ADD, rules[1:]) == "theirs"
    assert classify(ADD, (("mine", "nothing of that"),)) == "elementwise"


def test_names_that_read_the_same_are_numbered() -> None:
    shown = distinct_names([ADD, BY_CXXFILT, "f"])
    assert shown == {
        ADD: f"elementwise add<float> {TIMES}4 #1",
        BY_CXXFILT: f"elementwise add<float> {TIMES}4 #2",
        "f": "f",
    }


def test_a_name_that_looks_like_a_numbered_one() -> None:
    clash = f"elementwise add<float> {TIMES}4 #1"
    shown = distinct_names([ADD, BY_CXXFILT, clash])
    assert len(set(shown.values())) == 3
    assert shown[clash] == clash


def test_the_range_before_a_name_stays() -> None:
    assert distinct_names([f"epoch/step/{ADD}"]) == {
        f"epoch/step/{ADD}": f"epoch/step/elementwise add<float> {TIMES}4"
    }


@sampled("run", capture_names(), fast=DOZEN)
def test_no_two_kernels_become_one(run: str, tmp_path: Path) -> None:
    capture = open_capture(run_folder(run, tmp_path))
    if not capture.has("kernel"):
        pytest.skip("no kernels")
    table = capture.report("cuda_gpu_kern_sum")
    [shown] = readable_tables([table])
    names = list(shown.data["name"])
    assert len(set(names)) == len(names) == len(set(table.data["name"]))
    assert len(set(shorten_all(names, 30))) == len(names)


def test_all_names_together_stay_apart() -> None:
    shown = distinct_names(NAMES)
    assert len(set(shown.values())) == len(set(NAMES)) > 200
    assert len({readable(name) for name in NAMES}) < len(set(NAMES))  # without numbers they would not


def test_only_columns_of_kernels_change(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel(ADD, 0, 10), kernel(BY_CXXFILT, 10, 15), memcpy(1, 0, 2, 8))
    tables = [capture.report(name) for name in ("cuda_gpu_sum", "cuda_gpu_kern_sum")]
    first, second = readable_tables(tables)
    assert [row[:-1] for row in first.rows()] == [row[:-1] for row in tables[0].rows()]
    assert first.data["operation"] == [
        f"elementwise add<float> {TIMES}4 #1",
        f"elementwise add<float> {TIMES}4 #2",
        "[CUDA memcpy Host-to-Device]",
    ]
    assert second.data["name"] == first.data["operation"][:2]  # one kernel, one name


def test_a_missing_name_stays_missing(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel(7, 0, 10))
    [shown] = readable_tables([capture.report("cuda_gpu_kern_sum")])
    assert shown.data["name"] == [None]
    assert "(no name)" in text.render([shown])["cuda_gpu_kern_sum.txt"]


FOUR = [
    kernel(name, 10 * at, 10 * at + 10) for at, name in enumerate((ADD, "b", "c", "d"))
]  # no one is the program


def test_on_the_screen(tmp_path: Path) -> None:
    summary = summarize(opened(tmp_path, *FOUR))
    assert f"elementwise add<float> {TIMES}4" in screen.render(screen.with_readable_names(summary))
    assert "elementwise add" not in screen.render(summary, width=400)  # with room the name stays


def test_the_command_shows_them_on_its_screen(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "a.sqlite", *FOUR)
    assert f"elementwise add<float> {TIMES}4" in cli("report", path, "--readable").stdout
    assert "elementwise add" not in cli("report", path, COLUMNS="400").stdout


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_the_command_shows_them(cli: Cli, tmp_path: Path, form: str) -> None:
    path = write(tmp_path / "a.sqlite", kernel(ADD, 0, 10))
    done = cli("report", path, "-r", "cuda_gpu_kern_sum", "--format", form, "--readable")
    assert f"elementwise add<float> {TIMES}4" in done.stdout
    assert "at::native" not in done.stdout


@pytest.mark.parametrize("form", ["csv", "tsv", "json", "parquet"])
def test_data_has_the_names_as_they_are(cli: Cli, tmp_path: Path, form: str) -> None:
    path = write(tmp_path / "a.sqlite", kernel(ADD, 0, 10))
    done = cli(
        "report", path, "-r", "cuda_gpu_kern_sum", "--format", form, "-o", tmp_path / "o", "--readable"
    )
    assert done.returncode == 2
    assert f"--readable cannot be used with --format {form}" in done.stderr
    assert not (tmp_path / "o").exists()


def test_csv_files_have_the_names_as_they_are(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "a.sqlite", kernel(ADD, 0, 10))
    done = cli("report", path, "-r", "cuda_gpu_kern_sum", "--csv", tmp_path / "csv", "--readable")
    assert "--readable does not change names in the files of --csv" in done.stderr
    assert ADD in (tmp_path / "csv" / "cuda_gpu_kern_sum.csv").read_text(encoding="utf-8")


REPORT = "kernel_class_sum"


def rules_of(folder: Path, content: str) -> tuple[tuple[str, str], ...]:
    path = folder / "classes.toml"
    path.write_text(content, encoding="utf-8")
    return read_rules(path)


def test_rules_in_a_file(tmp_path: Path) -> None:
    content = """
        [[class]]
        name = "stencil"
        pattern = 'advec|diffuse'

        [[class]]
        name = "gemm"
        pattern = "^my_product"
    """
    assert rules_of(tmp_path, content) == (("stencil", "advec|diffuse"), ("gemm", "^my_product"))


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ("", "[[class]] is missing"),
        ("class = 3", "[[class]] is missing"),
        ("[class]\nname = 'a'\npattern = 'b'", "[[class]] is missing"),
        ("[[class]", "is not TOML"),
        ("[[classes]]\nname = 'a'", "unknown key 'classes'"),
        ("[[class]]\nname = 'a'", "[[class]] number 1 lacks 'pattern'"),
        (
            "[[class]]\nname = 'a'\npattern = 'a{99999999999}'",
            "'a{99999999999}' is not a regular expression: ",
        ),
        ("[[class]]\nname = 'a'\nregex = 'b'", "number 1 lacks 'pattern' and has an unknown key 'regex'"),
        ("[[class]]\nname = 'a'\npattern = 'b'\nx = 1", "number 1 has an unknown key 'x'"),
        ("class = [1]", "number 1 lacks 'name' and lacks 'pattern'"),
        ("[[class]]\nname = 1\npattern = 'b'", "name and pattern must be non-empty strings"),
        ("[[class]]\nname = ''\npattern = 'b'", "name and pattern must be non-empty strings"),
        ("[[class]]\nname = 'a'\npattern = 'b'\n[[class]]\nname = 'a'\npattern = '('", "number 2: '('"),
    ],
)
def test_a_wrong_file_says_what_and_where(tmp_path: Path, content: str, wrong: str) -> None:
    with pytest.raises(UsageError) as caught:
        rules_of(tmp_path, content)
    assert wrong in str(caught.value)
    assert "classes.toml" in str(caught.value)
    assert '[[class]] name = "..." pattern = "REGEX"' in caught.value.hint


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*nowhere\.toml: No such file"):
        read_rules(tmp_path / "nowhere.toml")
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"x\.toml is not TOML"):
        read_rules(tmp_path / "x.toml")


def test_the_command_takes_a_file(cli: Cli, tmp_path: Path) -> None:
    export = write(tmp_path / "a.sqlite", kernel("diffuse(double *)", 0, 5))
    (tmp_path / "own.toml").write_text("[[class]]\nname = 'stencil'\npattern = 'diffuse'\n", encoding="utf-8")
    done = cli("report", export, "-r", REPORT, "--format", "csv", "--classes", "own.toml")
    assert done.stdout.splitlines()[1].startswith("stencil,1,1,100.0,5,")
    wrong = cli("report", export, "-r", REPORT, "--classes", "nowhere.toml")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("nsyswrap: cannot read nowhere.toml: No such file")
