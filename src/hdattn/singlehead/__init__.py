"""High-dimensional single attention head: state evolution, spectra, training (paper B).

What the package offers by name is imported when first used; ``dir()`` lists it.
"""

from hdattn.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    "hdattn.singlehead",
    {
        "problem": "Problem",
        "solution": "Solution",
        "state_evolution": "solve solve_curve",
        "targets": "MarchenkoPastur Spectrum power_law",
        "thresholds": "alpha_interpolation alpha_recovery solve_ridgeless",
        "samples": "SampleStream Teacher draw_teacher",
        "objective": "AttentionLoss",
        "erm": "Fit draw_start fit train",
        "paths": "fit_path",
        "measure": "Measurement",
        "amp": "AmpRun MessagePassing observe",
        "bayes_optimal": "BayesOptimal solve_bayes solve_bayes_curve",
        "trajectory": "Trajectory bayes_optimal_trajectory state_evolution_trajectory",
        "regularisation": "best_lambda",
        "decomposition": "Decomposition decompose decompose_matrix",
        "exponents": "Fit fit_exponent predicted_exponent",
        "independent": "IndependentModes",
        "regimes": "Penalties",
        "scaling": "ScalingCurve measure_exponent scaling_curve",
        "linear_output": "LinearOutput",
    },
)
