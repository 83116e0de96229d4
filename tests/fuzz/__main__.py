"""Run mutated files: ``python -m fuzz --cases 100000 --shards 1/4`` in ``tests/``, or ``python tests/fuzz``.

Prints each finding with the command that repeats it, and a table: how many cases of each kind were answered,
refused with exit code 65, or ended otherwise.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS.parent), str(TESTS), str(TESTS / "support")]
os.environ.setdefault("LC_ALL", "C.UTF-8")

from fuzz import planted, server  # noqa: E402 - needs the path

_EVERY_S = 30.0
_CHUNK = 100  # cases that stay in one shard


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    kinds = tuple(server.SUBJECTS)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(kinds)}; default: all")
    parser.add_argument("--cases", type=int, default=2000, help="number of cases over all shards")
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    parser.add_argument("--shards", default="1/1", metavar="I/N", help="run the I-th of N parts")
    parser.add_argument("--only", metavar="KIND:SEED", help="run one case and keep its folder")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)  # for the tests, as the next
    parser.add_argument("--planted", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if unknown := set(asked.kinds) - set(kinds):
        parser.error(f"no kind named {', '.join(unknown)}")
    server.prepare()
    if asked.serve:
        return _serve()
    if asked.planted:
        print(json.dumps(planted.findings()))
        return 0
    if asked.only:
        return _only(*asked.only.split(":"))
    part, parts = map(int, asked.shards.split("/"))
    seeds = (
        seed for seed in range(asked.seed, asked.seed + asked.cases) if seed // _CHUNK % parts == part - 1
    )
    return _report([server.numbered(seed, tuple(asked.kinds) or kinds) for seed in seeds])


def _serve() -> int:
    """Answer each line, the first case, how many, and their kinds if not all, with a line of JSON."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # removes the folder of the case
    for line in sys.stdin:
        first, count, *chosen = line.split()
        kinds = tuple(chosen) or tuple(server.SUBJECTS)
        seeds = range(int(first), int(first) + int(count))
        done = [server.outcome(*server.numbered(seed, kinds)) for seed in seeds]
        result = {
            "codes": Counter(one.code for one in done),
            "harmless answered": sum(one.must_answer and one.code == 0 for one in done),
            "findings": [f"{one.kind}:{one.seed} {one.finding} ({one.made})" for one in done if one.finding],
        }
        print(json.dumps(result), flush=True)
    return 0


def _only(kind: str, seed: str) -> int:
    folder = Path(tempfile.gettempdir(), f"nsyswrap-fuzz-{kind}-{seed}")
    shutil.rmtree(folder, ignore_errors=True)
    done = server.outcome(kind, int(seed), keep=folder)
    print(f"{done.made}\nnsyswrap {' '.join(done.argv)}\nin {folder / 'case'}: exit code {done.code}")
    print(done.finding or "no finding")
    return bool(done.finding)


def _report(cases: list[tuple[str, int]]) -> int:
    begun = reported = time.monotonic()
    counts: dict[str, Counter[str]] = {}
    seconds: Counter[str] = Counter()
    findings = 0
    for number, (kind, seed) in enumerate(cases, 1):
        done = server.outcome(kind, seed)
        seconds[kind] += done.seconds  # type: ignore[assignment]
        counts.setdefault(kind, Counter())[{0: "answers", 65: "refused"}.get(done.code, "others")] += 1
        if done.finding:
            findings += 1
            counts[kind]["findings"] += 1
            print(
                f"{kind}:{seed} {done.finding}\n    {done.made}\n    nsyswrap {' '.join(done.argv)}",
                flush=True,
            )
        if time.monotonic() - reported > _EVERY_S:
            reported = time.monotonic()
            rate = number / (reported - begun)
            print(f"{number} of {len(cases)} cases, {findings} findings, {rate:.0f} cases/s", file=sys.stderr)
    headers = ("cases", "answers", "exit 65", "others", "findings", "s", "cases/s")
    print("kind    ", *(f"{header:>9}" for header in headers), sep="")
    for kind, count in counts.items():
        ran = count["answers"] + count["refused"] + count["others"]
        numbers = (ran, *(count[key] for key in ("answers", "refused", "others", "findings")))
        columns = "".join(f"{number:>9}" for number in numbers)
        print(f"{kind:<8}{columns}{seconds[kind]:>9.0f}{ran / max(seconds[kind], 1e-9):>9.1f}")
    print("repeat one: python tests/fuzz --only KIND:SEED")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
