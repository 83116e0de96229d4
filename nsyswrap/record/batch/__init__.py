"""Batches: many planned runs, on this machine or on a cluster."""
