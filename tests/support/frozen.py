"""Tell whether a change of the code changes any output: hashes of what commands print and write.

    python tests/support/frozen.py BEFORE.json [FOLDER ...]    write the hashes, or name what differs

Every command runs on every recorded capture, and on those in the folders. The file is written where there is
none. Versions of nsyswrap are masked; in SVG also the names
of clip paths, which are addresses, and what layout rounds now up, now down: all but three decimals.
"""

import hashlib
import json
import lzma
import os
import re
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests/support")]

from fuzz import server  # noqa: E402 - found by the path above
from fuzz.case import Case, no_problem  # noqa: E402
from recorded import run_folder, run_names  # noqa: E402
from releases import lay_batch  # noqa: E402

from nsyswrap import __version__  # noqa: E402

_LIMITS = server.Limits(seconds=300.0, bytes=8_000_000_000)
_VERSION = __version__.encode()
_CLIP_PATH = re.compile(rb"p[0-9a-f]{10}\b")
_DECIMALS = re.compile(rb"(\.\d{3})\d+")
CAPTURE = (
    *(f"report c -r all --format {form}" for form in ("csv", "json", "markdown", "text", "tsv")),
    *(f"report c --format {form}" for form in ("text", "json", "markdown")),
    *("report c --advice", "report c --readable", "doctor c", "redact --check c", "redact c -o copy.sqlite"),
    *("view c -o page.html", "export c --perfetto t.pftrace", "export c --perfetto t.json"),
    *(
        "export c --flamegraph f.folded",
        "export c --metrics openmetrics -o m.txt",
        "export c --events events",
    ),
    "plot c -o plots --format svg",
)
COMPARED = (
    *(f"compare base new --anyway --format {form}" for form in ("text", "csv", "json", "markdown")),
    *("compare base new --anyway --view page.html", "compare base new --anyway --plot plot.svg"),
    "compare base new --anyway --gate",
)
MANY = (
    *("collect all -o out --jobs 1", "report all -r cuda_gpu_kern_sum --format csv", "view all -o page.html"),
    *("report all", "report all -r cuda_gpu_sum --format json", "compare all --anyway"),
    *("batch status all", "collect all -o out --jobs 1 --merge"),
)


def jobs(folders: Iterable[Path]) -> Iterable[tuple[str, str]]:
    """Yield each command with what it runs on: a recorded run, a file, two runs, or many."""
    names = run_names()
    exports = [str(path) for folder in folders for path in sorted(folder.rglob("*.sqlite*"))]
    for name in (*names, *exports):
        yield from ((name, command) for command in CAPTURE)
    scenarios = defaultdict[str, list[str]](list)
    for name in names:
        scenarios[name.partition("/")[0]].append(name)
    for scenario, variants in scenarios.items():
        for first, second in pairwise(variants):
            yield from ((f"{first} {second}", command) for command in COMPARED)
        yield from ((scenario, command) for command in MANY)
    yield from (("batch-0.1.0", command) for command in MANY)


def lay(subject: str, folder: Path) -> None:
    """Put what a command runs on into a folder, under the names in the command."""
    if subject == "batch-0.1.0":
        lay_batch("0.1.0", folder / "all")
    elif subject.startswith("/"):
        source, target = Path(subject), folder / "c"
        content = source.read_bytes()
        target.write_bytes(lzma.decompress(content) if source.suffix == ".xz" else content)
    elif " " in subject:
        for name, place in zip(subject.split(), ("base", "new"), strict=True):
            _settle(run_folder(name, folder / "unpacked"), folder / place)
    elif "/" in subject:
        _settle(run_folder(subject, folder / "unpacked"), folder / "c")
    else:
        for name in run_names():
            if name.startswith(f"{subject}/"):
                _settle(run_folder(name, folder / "unpacked"), folder / "all" / name.partition("/")[2])
    shutil.rmtree(folder / "unpacked", ignore_errors=True)


def _settle(source: Path, target: Path) -> None:
    """Copy a run folder, with one time for all files: some outputs name it."""
    shutil.copytree(source, target)
    for path in (target, *target.rglob("*")):
        os.utime(path, (1_700_000_000, 1_700_000_000))


def outcome(job: tuple[str, str]) -> str:
    """Return the hash of all that a command prints and writes, with its exit code."""
    subject, command = job
    place = Path(tempfile.mkdtemp(prefix="frozen-"))  # a TemporaryDirectory would go when the child ends
    try:
        (place / "case").mkdir()
        lay(subject, place / "case")
        case = Case(command.split(), [], no_problem, "", before=_narrow)
        ended = server.run(case, place, _LIMITS)
        content = hashlib.sha256(f"{ended.code} {ended.stopped}".encode())
        for path in sorted(place.rglob("*")):
            if path.is_file() and "home" not in path.parts:
                content.update(path.relative_to(place).as_posix().encode() + b"\0")
                masked = path.read_bytes().replace(_VERSION, b"VERSION")
                masked = masked.replace(str(place).encode(), b"FOLDER")
                if path.suffix == ".svg":
                    masked = _DECIMALS.sub(rb"\1", _CLIP_PATH.sub(b"CLIP", masked))
                content.update(masked)
        return content.hexdigest()[:16]
    finally:
        shutil.rmtree(place)


def _narrow() -> None:
    os.environ["COLUMNS"] = "80"


def main(file: Path, folders: list[Path]) -> int:
    """Write the hashes, or compare with them; return the exit code."""
    server.prepare()
    asked = list(jobs(folders))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        hashes = dict(zip(map(" | ".join, asked), pool.map(outcome, asked, chunksize=4), strict=True))
    if not file.exists():
        file.write_text(json.dumps(hashes, indent=0), encoding="utf-8")
        print(f"{len(hashes):,} outputs written to {file}")
        return 0
    before = json.loads(file.read_text(encoding="utf-8"))
    different = [name for name in before.keys() | hashes if before.get(name) != hashes.get(name)]
    print(*sorted(different), f"{len(different):,} of {len(hashes):,} outputs differ", sep="\n")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), [Path(one) for one in sys.argv[2:]]))
