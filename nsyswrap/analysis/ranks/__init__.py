"""The ranks of one job: which captures they are, and what each did."""
