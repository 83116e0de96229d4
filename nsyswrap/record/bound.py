"""A script that executes a program which gets SIGTERM if its parent dies, even by SIGKILL.

Its arguments are the process id of the parent and the program's command line.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    """Bind this process to its parent and execute ``argv[2:]``; never returns."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
    if os.getppid() != int(argv[1]):  # it died before
        os._exit(128 + signal.SIGTERM)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these two
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[2], argv[2:])  # noqa: S606 - without a shell
    except OSError as error:
        os.write(2, f"{argv[2]}: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    main(sys.argv)
