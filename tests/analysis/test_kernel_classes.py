"""Rules of the user's own for the classes of kernels."""

from pathlib import Path

import pytest
from conftest import Cli
from tiny_export import kernel, write

from nsyswrap.analysis.kernel_names import read_rules
from nsyswrap.base.errors import UsageError

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
