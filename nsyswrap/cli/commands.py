"""The commands, in the order of use."""

from __future__ import annotations

# Command -> its heading and its line in --help, which imports no command.
_ONE, _MANY, _LEARNING, _OTHER = "One program", "Many runs", "Learning", "Sharing and setup"
COMMANDS = {
    "profile": (_ONE, "Run a program under nsys and show its GPU activity."),
    "report": (_ONE, "Show captures: one screen, or reports in any format."),
    "view": (_ONE, "Write captures as one HTML page with a timeline."),
    "plot": (_ONE, "Draw captures: kernels, timeline, launches, copies."),
    "batch": (_MANY, "Run variants of programs, here or on a Slurm cluster."),
    "collect": (_MANY, "Put many runs into one table and compare them."),
    "compare": (_MANY, "Say whether a change made runs slower, and where."),
    "baseline": (_MANY, "Save figures of runs to commit; follow them over commits."),
    "session": (_ONE, "Record parts of a server's run, without a restart."),
    "runs": (_MANY, "List the runs begun here, open one, remove old ones."),
    "demo": (_LEARNING, "Run two small experiments, or show them recorded."),
    "scenarios": (_LEARNING, "List, explain and run small experiments."),
    "export": (_OTHER, "Write captures for Perfetto, as Parquet, as metrics."),
    "redact": (_OTHER, "Remove secrets from a capture before sharing it."),
    "doctor": (_OTHER, "Check this machine for recording, or check a capture."),
}
HIDDEN = ("run-folder",)  # the tasks of a batch run it
