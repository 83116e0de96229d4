"""Which values of variables are searched for, and whose names."""

import getpass
import socket
from pathlib import Path

import pytest
from tiny_export import diagnostic, kernel, row, write

from nsyswrap.capture.redact import check, redact
from nsyswrap.capture.redact.search import Search
from nsyswrap.capture.redact.values import is_telling


@pytest.mark.parametrize(
    ("name", "value", "searched"),
    [
        ("API_TOKEN", "abc123", True),
        ("API_TOKEN", "abc12", False),  # 5 characters
        ("API_TOKEN", "aaaaaa", False),  # one different character
        ("SSH_AUTH_SOCK", "/run/agent.17", False),  # a path
        ("PROJECT", "vogon-42-poem", True),
        ("PROJECT", "vogon-42-po", False),  # 11 characters
        ("PROJECT", "ababababababab", False),
        ("LANG", "en_US.UTF-8.and.more", False),  # the same for many people
        ("NCCL_DEBUG_SUBSYS", "INIT,COLL,GRAPH", False),
        ("NGC_KEY", "vogon42", True),
        ("URL", "https://example.org/a/b", False),
        ("SLACK_WEBHOOK", "https://hooks.example.org/a/b", True),
        ("AWS_SECRET_ACCESS_KEY", "/wJalrXUtnFEMI", True),
        ("MYSQL_PWD", "Hunter22x", True),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/home/trillian/key.json", False),
    ],
)
def test_an_unusual_value_is_searched_for(name: str, value: str, searched: bool) -> None:  # noqa: FBT001
    assert is_telling(name, value) is searched


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("see /home/trillian/nsys.log", "see /home/redacted/nsys.log"),
        ("/global/homes/t/trillian/a", "/global/homes/t/redacted/a"),
        (r"C:\Users\Tricia McMillan\a", r"C:\Users\redacted\a"),
        ("/root/a and /usr/lib/x", "/root/a and /usr/lib/x"),
        ("a/u/b", "a/u/b"),
        ("/u/trillian", "/u/redacted"),
        ("libcublas.so.11.11.3.6", "libcublas.so.11.11.3.6"),
        ("CUDA version 12.4.1.2", "CUDA version 12.4.1.2"),
        ("tcp://10.1.2.3:29500", "tcp://redacted:29500"),
        ("bound to 127.0.0.1 and 0.0.0.0", "bound to 127.0.0.1 and 0.0.0.0"),
        ("inet fe80::1a2b:3c4d", "inet redacted"),
        ("00:1a:2b:3c:4d:5e up", "redacted up"),
        ("0000:00:06.0", "0000:00:06.0"),
        ("tokens: 512, token=17", "tokens: 512, token=17"),
        ("--api-key=abcdef123", "--api-key=redacted"),
        ("https://me:hunter2@example.org/x", "https://me:redacted@example.org/x"),
        ("write to trillian@example.org", "write to redacted"),
        ("Authorization: Bearer abcdefgh12", "Authorization: Bearer redacted"),
        ("hf_abcdefghijklmnopqrst", "redacted"),
        ("aten::add, op_id = 5, seq = 10", "aten::add, op_id = 5, seq = 10"),
        ("std::vector<a::b>::operator[](int)", "std::vector<a::b>::operator[](int)"),
    ],
)
def test_what_looks_like_a_secret_is_removed_from_any_text(text: str, cleaned: str) -> None:
    search = Search({}, set(), set())
    assert search.text(text) == cleaned
    assert search.text(cleaned) == cleaned


def test_an_argument_after_a_secret_option_is_removed_everywhere(tmp_path: Path) -> None:
    rows = [
        row("META_DATA_CAPTURE", name="PROCESS_0:ARGUMENT_0", value="--password"),
        row("META_DATA_CAPTURE", name="PROCESS_0:ARGUMENT_1", value="hunter22"),
        row("META_DATA_CAPTURE", name="PROCESS_0:ARGUMENT_2", value="--steps=10"),
        diagnostic("login with hunter22 failed"),
    ]
    write(tmp_path / "x.sqlite", kernel("k", 0, 5), *rows)
    assert [secret.kind for secret in check(tmp_path / "x.sqlite").secrets] == [
        "user, host and paths",
        "inside other texts",
    ]
    redact(tmp_path / "x.sqlite", tmp_path / "copy.sqlite")
    raw = (tmp_path / "copy.sqlite").read_bytes()
    assert b"hunter22" not in raw
    assert b"--steps=10" in raw


def test_who_runs_it_is_searched_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "slartibart")
    monkeypatch.setattr(socket, "gethostname", lambda: "magrathea.example")
    monkeypatch.setattr(Path, "home", lambda: Path("/srv/people/wowbagger"))
    monkeypatch.setenv("WANDB_API_KEY", "Vogon42-poetry")
    text = "slartibart on magrathea, wowbagger, Vogon42-poetry"
    write(tmp_path / "x.sqlite", kernel("k", 0, 5), diagnostic(text))
    redact(tmp_path / "x.sqlite", tmp_path / "copy.sqlite")
    raw = (tmp_path / "copy.sqlite").read_bytes()
    assert b"redacted on redacted, redacted, redacted" in raw


def test_many_values_are_found(tmp_path: Path) -> None:
    """A text is compared with all values at once: one by one would take minutes."""
    variables = "\0".join(f"ODD{i}=value-{i:06}-secret" for i in range(20_000))
    write(
        tmp_path / "x.sqlite",
        kernel("k", 0, 5),
        *(row("LOG", text=f"value-{i:06}-secret") for i in range(20_000)),
        strings={1: variables},
    )
    done = redact(tmp_path / "x.sqlite", tmp_path / "copy.sqlite")
    assert done.changed == {"LOG.text": 20_000}
