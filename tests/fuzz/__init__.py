"""Mutated files, and what a command may do with them: answer exactly, or refuse with one line."""
