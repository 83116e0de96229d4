"""``nsyswrap redact``: remove secrets from a capture, or check that none are left."""

from __future__ import annotations

from pathlib import Path

import click

from nsyswrap.base.errors import CheckFailed, UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_folder import EXPORT
from nsyswrap.cli.help import Command, option
from nsyswrap.cli.options import OUTPUT
from nsyswrap.cli.output import note

with lazy_imports():
    from nsyswrap.capture import redact


@click.command(
    cls=Command,
    examples=("nsyswrap redact run1 -o shared.sqlite", "nsyswrap redact --check shared.sqlite"),
)
@click.argument("capture", type=click.Path(readable=False, path_type=Path))
@option(
    OUTPUT, "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the redacted copy."
)
@option(OUTPUT, "--check", is_flag=True, help="List secrets by kind, name and count; exit 1 if any.")
def command(capture: Path, output: Path | None, *, check: bool) -> None:
    """Remove secrets from a capture before sharing it.

    nsys stores the environment and output of the program, and the environment and name of every other
    process. The copy lacks them; its reports stay the same. The command line of the program stays.
    CAPTURE is a run folder or a .sqlite file: a .nsys-rep cannot be redacted.
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
        click.echo(f"{secret.kind}: {secret.count:,}{names}")
    if secrets:
        raise CheckFailed(f"{source} would leak", f"nsyswrap redact {source} -o OUT")
    click.echo("nothing known to be secret")
