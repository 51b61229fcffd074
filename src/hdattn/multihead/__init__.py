"""Multi-head attention on single-location regression: order parameters, flow, SGD (paper A).

What the package offers by name is imported when first used; ``dir()`` lists it.
"""

from hdattn.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    "hdattn.multihead",
    {
        "priors": "DiscretePrior FlippingPrior GaussianPrior make_prior",
        "activations": "get_activation",
        "population": "PopulationLoss",
        "quadrature": "population_loss",
        "bayes": "bayes_risk",
        "continuation": "optimum_curve",
        "escape": "escape_time",
        "plateau": "plateau_eigenvalues",
        "stability": "growth_rates plateau_hessian",
        "flow": "Flow FlowProblem solve_flow",
        "loss_parts": "LossParts decompose_loss",
        "optima": "Optimum find_optimum",
        "pruning": "PruningCurve prune",
        "trained_heads": "Heads train_heads",
        "order_parameters": "initial_order_parameters",
        "sgd": "SgdResult run_sgd",
        "splitting": "SplitStatistics split_statistics",
    },
)
