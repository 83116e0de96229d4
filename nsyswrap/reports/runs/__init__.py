"""Many finished runs as tables: one row a run, every summary, merged kernels, repeats held together."""
