"""High-dimensional theory of attention: solvers, simulations and figures."""
