"""The commands, in the order of use."""

from __future__ import annotations

# Command -> its line in --help, which imports no command.
COMMANDS = {
    "profile": "Run a program under nsys and show what the GPU did.",
    "report": "Show what is in captures: one screen, or reports in any format.",
    "view": "Write captures as one HTML page: verdicts, timeline, tables.",
    "plot": "Draw captures: longest kernels, timeline, launches, copies.",
    "batch": "Run many variants, here or on a Slurm cluster: run, sweep, status, cancel.",
    "collect": "Put many runs and captures into one table.",
    "runs": "List the runs begun here, open one, remove old ones.",
    "scenarios": "Small experiments that teach and prove: list them, run them.",
    "export": "Write a capture as a timeline for Perfetto, or its events as Parquet.",
    "redact": "Take environment, output and names out of a capture.",
    "demo": "See what nsyswrap shows, with a GPU or without.",
    "run-folder": "Carry out one planned run of a batch, as its tasks do.",
}
