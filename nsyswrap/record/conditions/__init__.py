"""Note the conditions of a run: its GPUs while it runs, the machine, the program's versions and commit."""
