"""Groups, intervals and nested spans in numpy arrays."""
