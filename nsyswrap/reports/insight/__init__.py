"""The reports that nsys does not have."""
