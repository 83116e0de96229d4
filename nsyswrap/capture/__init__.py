"""Read nsys exports into numpy columns; redact them."""
