"""Where the runs of a batch go: ``local`` on this machine, ``slurm`` on a cluster."""
