"""Make tables over many finished runs: one row per run, all summaries, merged kernels, repeats compared."""
