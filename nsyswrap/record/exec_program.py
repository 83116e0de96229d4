"""A script that nsys runs: it restores the environment of nsyswrap's caller, then executes the program.

nsys connects a program to pipes, prints into the same stream, sets the umask to 0, extends LD_LIBRARY_PATH
and resets SIGQUIT. nsyswrap gives nsys a TMPDIR of its own, and blocks signals. The script undoes all of
this. A PYTHONPATH with nsyswrap's hook is for the program alone.

The first argument is ``stdin,stdout,stderr[,report...]/umask/ignored/blocked``. The descriptors are
duplicates of nsyswrap's own, inherited through nsys. The umask is octal. ``ignored`` and ``blocked`` list the
signals that nsyswrap's caller ignores and blocks. Before the program starts, each ``report`` gets a line:
STARTED with the process id, and the time in ns of CLOCK_MONOTONIC. If the start fails, the error number
follows. A variable ``NSYSWRAP_CALLER_X`` holds ``=`` and the former value of ``X``; it is empty if ``X`` was
not set.
"""

import os
import signal
import sys
import time

STARTED = b"s"
RESTORED = ("TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH")
PREFIX = "NSYSWRAP_CALLER_"


def main(argv: list[str]) -> None:
    """Use the descriptors of ``argv[1]`` and execute ``argv[2:]``; never returns."""
    descriptors, umask, ignored, blocked = argv[1].split("/")
    numbers = [int(number) for number in descriptors.split(",")]
    own, report = numbers[:3], numbers[3:]
    for target, descriptor in enumerate(own):
        if descriptor != target:
            os.dup2(descriptor, target)
            os.close(descriptor)
    os.umask(int(umask, 8))
    _restore_variables()
    # Python ignores two of these signals and catches one. A program expects the default actions.
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    for text in filter(None, ignored.split(",")):
        signal.signal(int(text), signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, map(int, filter(None, blocked.split(","))))
    for descriptor in report:
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - positional only
        os.write(descriptor, b"%s%d %d\n" % (STARTED, os.getpid(), time.monotonic_ns()))
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
