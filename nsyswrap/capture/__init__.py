"""Read nsys exports into numpy columns, and remove secrets from exports."""
