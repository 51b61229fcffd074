"""High-dimensional single attention head: state evolution, spectra, training (paper B)."""
