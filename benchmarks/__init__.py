"""Measurements of the memory, run from a clone; nothing here is installed."""
