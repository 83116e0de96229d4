"""Group statistics, intervals and nested spans on numpy arrays."""
