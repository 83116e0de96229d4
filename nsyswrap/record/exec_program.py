"""Runs inside nsys: gives the program its own stdin, stdout and stderr back, then becomes the program.

nsys puts pipes between a program and its terminal, and prints into the same stream. The descriptors named
in the first argument (``stdin,stdout,stderr[,report]``) are duplicates of nsyswrap's own, inherited through
nsys. ``report`` gets one byte before the program starts, and the error number if it cannot.
"""

import os
import signal
import sys

STARTED = b"s"


def main(argv: list[str]) -> None:
    """Take over the descriptors and execute ``argv[2:]``; never returns."""
    numbers = [int(number) for number in argv[1].split(",")]
    own, report = numbers[:3], numbers[3:]
    for target, descriptor in enumerate(own):
        if descriptor != target:
            os.dup2(descriptor, target)
            os.close(descriptor)
    # Python ignores these two; a program expects to be started with the defaults.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    for descriptor in report:
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - positional only
        os.write(descriptor, STARTED)
    try:
        os.execvp(argv[2], argv[2:])  # noqa: S606 - the user's program, without a shell
    except OSError as error:
        for descriptor in report:
            os.write(descriptor, str(error.errno).encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    main(sys.argv)
