"""Runs inside nsys: gives the program the world that nsyswrap was started in, then becomes the program.

nsys puts pipes between a program and its terminal, prints into the same stream, sets the umask to 0, extends
LD_LIBRARY_PATH and resets SIGQUIT; nsyswrap gives nsys a TMPDIR of its own. The first argument is
``stdin,stdout,stderr[,report]/umask/ignored``: descriptors that are duplicates of nsyswrap's own, inherited
through nsys, the umask in octal, and the signals that nsyswrap's caller ignores. ``report`` gets one byte
before the program starts, and the error number if it cannot. An environment variable ``NSYSWRAP_CALLER_X``
holds what ``X`` was, behind a ``=``; empty: not set.
"""

import os
import signal
import sys

STARTED = b"s"
RESTORED = ("TMPDIR", "LD_LIBRARY_PATH")
PREFIX = "NSYSWRAP_CALLER_"


def main(argv: list[str]) -> None:
    """Take over the descriptors and execute ``argv[2:]``; never returns."""
    descriptors, umask, ignored = argv[1].split("/")
    numbers = [int(number) for number in descriptors.split(",")]
    own, report = numbers[:3], numbers[3:]
    for target, descriptor in enumerate(own):
        if descriptor != target:
            os.dup2(descriptor, target)
            os.close(descriptor)
    os.umask(int(umask, 8))
    _restore_variables()
    # Python ignores these two; a program expects to be started with the defaults.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    for text in filter(None, ignored.split(",")):
        signal.signal(int(text), signal.SIG_IGN)
    for descriptor in report:
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - positional only
        os.write(descriptor, STARTED)
    try:
        os.execvp(argv[2], argv[2:])  # noqa: S606 - the user's program, without a shell
    except OSError as error:
        for descriptor in report:
            os.write(descriptor, str(error.errno).encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _restore_variables() -> None:
    for name in RESTORED:
        before = os.environ.pop(PREFIX + name, None)
        if before:
            os.environ[name] = before[1:]
        elif before is not None:
            os.environ.pop(name, None)


if __name__ == "__main__":
    main(sys.argv)
