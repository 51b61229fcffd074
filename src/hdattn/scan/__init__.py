"""Scans: a grid of parameters through the cache, to one tidy table and a quick look."""
