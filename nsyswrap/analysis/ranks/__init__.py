"""Find the ranks of one job, and compute what each of them did."""
