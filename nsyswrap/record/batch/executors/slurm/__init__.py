"""The executor that runs a batch on a Slurm cluster."""
