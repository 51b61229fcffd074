"""Experiments of the single-head model (paper B)."""
