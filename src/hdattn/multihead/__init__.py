"""Multi-head attention on single-location regression: order parameters, flow, SGD (paper A)."""
