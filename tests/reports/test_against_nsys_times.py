"""Times are read as the nsys on this machine reads --filter-time, and refused where it refuses them."""

import subprocess
from pathlib import Path

import pytest
from tiny_export import kernel, write

from nsyswrap.base.errors import UsageError
from nsyswrap.capture.intervals import LEAST, MOST
from nsyswrap.capture.selection import parse_time

# A report of ours for nsys: what it makes of --filter-time.
WINDOW = """
import nsysstats


class Window(nsysstats.StatsReport):
    display_name = usage = "Window"

    def setup(self):
        failed = super().setup()
        self.query = f"SELECT {self.parsed_args.start} AS first, {self.parsed_args.end} AS last"
        return failed


if __name__ == "__main__":
    Window.Main()
"""


@pytest.mark.parametrize(
    "text",
    [
        *("1s/2.5s", "10ms/", "/300us", " 1s/2s", "1s2ms3us4ns/", "2ns5us2/", "1nsec/1usec", "1msec/1sec"),
        *("1m/1h", "1min/1hour", "1e3/1E4us", "1e-3s/", "1./", "-1s-1ms/+1s", "-1s1ms/", "-1.9/1.9"),
        *("0.5ns0.5ns/", "2.3us/", "1.005us/", "9007199254740993/", "9007199254740993.0/", "5/5", "1us1us/"),
        *("9223372036854775807/", "-9223372036854775808/", "1sec1s/", "12h30m/"),
        # refused
        *(
            "/",
            "5",
            "s/",
            "e3/",
            "1x/",
            "1S/",
            "1 s/",
            "1s /2s",
            "1s/2s/3s",
            "//",
            "1//2",
            "1,000/",
            "1_000/",
        ),
        *("inf/", "nan/", "--1/", "1+1/", "1-1/", "1..5/", "-/", "./", "1e/", "1secs/", "1\u00b5s/", "2s/1s"),
        *("9223372036854775808/", "-9223372036854775809/", "1e400/"),
    ],
)
def test_the_grammar_of_times(text: str, tmp_path: Path, nsys: str) -> None:
    export = write(tmp_path / "x.sqlite", kernel("k", 0, 5))
    (tmp_path / "window.py").write_text(WINDOW, encoding="utf-8")
    asked = [
        "-q",
        "--format=csv",
        "--report-dir",
        str(tmp_path),
        "-r",
        "window",
        f"--filter-time={text}",
        str(export),
    ]
    done = subprocess.run([nsys, "stats", *asked], capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        with pytest.raises(UsageError):
            parse_time(text)
    else:
        start, end = parse_time(text)
        expected = (LEAST if start is None else start, MOST if end is None else end)
        assert done.stdout.split() == ["first,last", "{},{}".format(*expected)]
