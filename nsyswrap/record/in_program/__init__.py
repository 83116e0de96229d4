"""What a profiled program imports: clocks, NVTX ranges, the frame of a scenario's script."""
