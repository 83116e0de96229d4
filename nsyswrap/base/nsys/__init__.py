"""The nsys command: finding it, calling it, and understanding its output."""
