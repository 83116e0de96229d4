"""Record programs: from a program to a run folder."""
