"""The nsys command: finding it, calling it, and understanding its output. No other part knows its options."""
