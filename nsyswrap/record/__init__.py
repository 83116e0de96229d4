"""Run programs under nsys and write run folders."""
