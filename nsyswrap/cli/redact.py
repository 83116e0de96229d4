"""``nsyswrap redact``: remove secrets from a capture, or check that none are left."""

from __future__ import annotations

from pathlib import Path

import click

from nsyswrap.base.errors import CheckFailed, UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_folder import EXPORT
from nsyswrap.cli.output import note, say

with lazy_imports():
    from nsyswrap.capture import redact


@click.command()
@click.argument("capture", type=click.Path(readable=False, path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="OUT", help="The redacted copy to write."
)
@click.option(
    "--check", is_flag=True, help="Only list what would leak, by kind, name and count; exit 1 if anything."
)
def command(capture: Path, output: Path | None, *, check: bool) -> None:
    """Take environment, output and names out of a capture.

    nsys keeps the program's whole environment and output in every capture, and the environment and name
    of every other process on the machine. The copy lacks them, and every report of it is the same. The
    program's command line stays. A .nsys-rep cannot be redacted: share the .sqlite, and see
    `nsyswrap profile --discard-rep`.
    """
    if capture.suffix in (".nsys-rep", ".qdrep"):
        raise UsageError(f"{capture}: a .nsys-rep cannot be redacted", "export it to .sqlite and redact that")
    if check == (output is not None):
        raise UsageError("give either -o OUT or --check")
    source = capture / EXPORT if capture.is_dir() else capture
    if output is not None:
        redact.redact(source, output)
        note(f"wrote {output}")
        return
    secrets = redact.secrets_in(source)
    for secret in secrets:
        names = f": {', '.join(secret.names)}" if secret.names else ""
        say(f"{secret.kind}: {secret.count:,}{names}")
    if secrets:
        raise CheckFailed(f"{source} would leak", f"nsyswrap redact {source} -o OUT")
    say("nothing known to be secret")
