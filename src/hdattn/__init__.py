"""High-dimensional theory of attention: solvers, simulations and figures.

Each solver takes a description of a problem and returns a result object with its values,
``converged``, ``iterations`` and ``residual``:

>>> import hdattn
>>> problem = hdattn.singlehead.Problem(alpha=4, lam=0.01, noise=0.5)
>>> solution = hdattn.singlehead.solve(problem)
>>> print(f"{solution.Q:.4f} {solution.test_error:.4f} {solution.converged}")
1.1945 0.0804 True
>>> prior = hdattn.multihead.FlippingPrior(mean=[0.8, 0], std=[0, 2])
>>> m = [[0.8, 0.01], [0.8, -0.01]]
>>> start = hdattn.multihead.FlowProblem("bayes", 5, prior, m0=m)
>>> flow = hdattn.multihead.solve_flow(start, tau=[0, 5, 10])
>>> print(f"{flow.loss[-1]:.2f} {flow.converged}")
0.45 True

Mistakes raise :class:`hdattn.UserError`, whose text says how to mend them.
"""

from hdattn.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    "hdattn", {"singlehead": "", "multihead": "", "store": "", "errors": "UserError"}
)
