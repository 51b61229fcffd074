"""Work of the single-head experiments (paper B): d = dim, T = tokens, n = alpha d^2 samples.

Counts of iterations are typical ones of the default scale; they vary by half or twice with the
physics, which is what the model is right to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hdattn.cost.work import MB, Parameters, Work, added, model, times

BASE_MB = 95  # Python with numpy, scipy and h5py
STORED_ALPHA, STORED_LIMIT_MB = 4, 32  # training sets up to this size lie in the data file
CHUNK = 1024  # samples drawn at a time
WARM_EVALUATIONS, WEAK_EVALUATIONS = 45, 6.6  # of L-BFGS: the least, and what weak decay adds
MOST_EVALUATIONS = 400
LOOSE = 0.6  # share of the evaluations at a tolerance above the usual one
DIRECT = 0.5  # share where S is not factorised
ADAM_EVALUATIONS = 250
AMP_SHARE = 0.7  # of the iterations allowed, before the tolerance is met
SWEEPS = 11  # of the output channel at one point of a curve
INTERVAL_NODES = 16  # of the quadrature over each interval of a spectrum
JUMPS = 0.03  # of sweeps, over sqrt(lam): second minima of the prox are followed
PAIRS_MB = 20  # of the blocks in which pairs of nodes are looked at
CURVE_SWEEPS = 4  # at a point that starts from its neighbours in n
MERGED = 5000  # levels at most to which modes alone are merged
SEARCHED = 12  # weight decays looked at for the best one


@model("singlehead/data")
def data(p: Parameters) -> Work:
    """Teachers [d, p0] with their spectra, and the training sets where the block is small."""
    d, tokens, block = _data(p)
    width = _width(p["data"])
    stored = block * STORED_ALPHA * d**2
    stored *= stored * tokens * (d + tokens) * 8 <= STORED_LIMIT_MB * MB
    units = added(
        {"start data": 1, "normals": block * d * width, "decomposition": block * d**2 * width},
        _drawing(stored + block * CHUNK, tokens, d),
    )
    # W0 of the block is held by its teachers, as one array, and as the bytes of the file
    kept = 8 * block * d * width * 3 + 8 * stored * tokens * (d + tokens) * 3
    return Work(units, 60 + (kept + 8 * (CHUNK * tokens * d + 3 * d**2)) / MB)


@model("singlehead/erm")
def erm(p: Parameters) -> Work:
    """Training of a block at each alpha."""
    return _training(p, [p["lam"]], p["optimizer"])


@model("singlehead/erm_path")
def erm_path(p: Parameters) -> Work:
    """Training of a block at each alpha along a path of weight decays."""
    return _training(p, p["lams"])


@model("singlehead/recovery")
def recovery(p: Parameters) -> Work:
    """Training at the weight decays of a regime, of order one; each needs its saturation."""
    work = _training(p, [0.1])
    points = p["block_size"] * len(p["alphas"])
    channel = times(3 * points, _sweeps(p, 1))
    return Work(added(work.units, channel), work.memory_mb)


@model("singlehead/amp")
def amp(p: Parameters) -> Work:
    """Two products with all tokens, a prox of each sample and an eigendecomposition a step."""
    d, tokens, block = _data(p)
    units: dict[str, float] = {"start theory": 1}
    steps = AMP_SHARE * p["iterations"]
    pairs = tokens * (tokens + 1) / 2 - 1
    for alpha in p["alphas"]:
        n = alpha * d**2
        step = {
            "products": 4 * pairs * n * d**2,
            "stream": 2 * n * tokens * d,
            "sample prox": n * pairs if p["denoiser"] == "soft" else 0.3 * n * pairs,
            "decomposition": d**3,
        }
        drawn = _drawing(n + p["test_samples"], tokens, d)
        units = added(units, times(block, added(times(steps, step), drawn)))
    largest = max(p["alphas"]) * d**2
    tokens_held = 8 * largest * tokens * (d + tokens) + 8 * largest * pairs * 16
    tested = 8 * p["test_samples"] * tokens * (d + tokens)
    return Work(units, BASE_MB + max(tokens_held, tested) / MB)


@model("singlehead/state_evolution")
def state_evolution(p: Parameters) -> Work:
    """Fixed points over alpha, for each weight decay and each target."""
    lams = p["lams"] if "lams" in p else [p["lam"]]
    count = _targets(p) * len(p["alphas"])
    units = [times(count, _sweeps(p, SWEEPS * _hardness(lam))) for lam in lams]
    return Work(added({"start theory": 1}, *units), _theory_memory(p))


@model("singlehead/amp_state_evolution")
def amp_state_evolution(p: Parameters) -> Work:
    """One sweep an iteration, without looking for second minima."""
    count = _targets(p) * len(p["alphas"]) * p["iterations"]
    sweep = _sweeps(p, 1)
    if p["denoiser"] == "bayes":
        sweep = {"spectral sweep": 1, "modes": sweep["modes"]}
    return Work(added({"start theory": 1}, times(count, sweep)), _theory_memory(p))


@model("singlehead/bayes_optimal")
def bayes_optimal(p: Parameters) -> Work:
    """Iterations of the input channel alone, and a posterior error at each alpha."""
    count = _targets(p) * len(p["alphas"])
    dim = p["data"]["dim"] if "data" in p else 0
    iteration = {"spectral sweep": 1, "modes": dim}
    return Work(added({"start theory": 1}, times(60 * count, iteration)), _theory_memory(p))


@model("singlehead/best_regularisation")
def best_regularisation(p: Parameters) -> Work:
    """A search over the weight decay at each alpha."""
    count = SEARCHED * len(p["alphas"])
    return Work(added({"start theory": 1}, times(count, _sweeps(p, SWEEPS))), _theory_memory(p))


@model("singlehead/ridgeless")
def ridgeless(p: Parameters) -> Work:
    """The limit of no weight decay at each alpha."""
    return Work({"start theory": 1, "ridgeless point": len(p["alphas"])}, BASE_MB)


@model("singlehead/thresholds")
def thresholds(p: Parameters) -> Work:
    """Closed forms of each noise and rank."""
    points = len(p["kappa0s"]) * (len(p["noises"]) + 1)
    return Work({"start theory": 1, "threshold": points}, BASE_MB)


@model("singlehead/scaling")
def scaling(p: Parameters) -> Work:
    """Fixed points of one spectrum over n, and parts of the error."""
    point = _spectral_point(p, _levels(p["target"]))
    return Work(added({"start theory": 1}, times(len(p["sizes"]), point)), BASE_MB + PAIRS_MB)


@model("singlehead/exponents")
def exponents(p: Parameters) -> Work:
    """Fixed points of all regimes, channels and dimensions; modes alone are merged to levels."""
    units: dict[str, float] = {"start theory": 1}
    alone = p["modes"] == "independent"
    for dim in p["dims"]:
        given = p | {"target": {"dim": dim}}
        levels = min(dim, MERGED) if alone else dim
        for channel in p["channels"]:
            if alone:
                point = _sweeps(given | {"channel": channel, "target": {"dim": 0}}, CURVE_SWEEPS)
                point = added(point, {"mode alone": CURVE_SWEEPS * levels})
            else:
                point = _spectral_point(given | {"channel": channel}, levels)
            units = added(units, times(3 * p["points"], point))
    return Work(units, BASE_MB + PAIRS_MB + 20 * 8 * max(p["dims"]) / MB)


def _spectral_point(p: Parameters, levels: int) -> dict[str, float]:
    """A fixed point, and the replicon: pairs of nodes above and below the threshold."""
    target = {"target": {"dim": levels}}
    pairs = (INTERVAL_NODES * levels) ** 2 / 16
    return added(_sweeps(p | target, CURVE_SWEEPS), {"node pairs": pairs})


def _levels(target: Parameters) -> int:
    """Distinct eigenvalues of a target."""
    return len(target["levels"]) + 1 if "levels" in target else _dim(target)


def _training(p: Parameters, lams: Sequence[float], optimizer: str = "lbfgs") -> Work:
    d, tokens, block = _data(p)
    factors = 2 if p.get("head") == "untied" else 1
    weights = factors * d * max(1, round(p["kappa"] * d))
    held_out = p["test_samples"] + (p.get("validation_samples") or 0)
    drawn, evaluated = {}, {}
    for alpha in p["alphas"]:
        n = alpha * d**2
        evaluations = sum(_evaluations(p, alpha, lam, optimizer) for lam in lams)
        gradient = {
            "products": 4 * (tokens - 1) * n * d**2 * (2 if factors == 2 and tokens > 2 else 1),
            "products of weights": 4 * d * weights,
            "weights": weights,
            "stream": n * tokens * d,
            "softmax": n * tokens**2,
            "evaluation": 1,
        }
        measured = {"products": 2 * (tokens - 1) * held_out * d**2, "decomposition": d**3}
        drawn = added(drawn, _drawing(n + held_out, tokens, d), times(len(lams), measured))
        evaluated = added(evaluated, times(evaluations, gradient))
    units = added({"start theory": 1}, times(block, added(drawn, evaluated)))
    trained = 8 * max(p["alphas"]) * d**2 * tokens * (d + tokens)
    tested = 2 * 8 * max(p["test_samples"], p.get("validation_samples") or 0) * tokens * (d + 1)
    return Work(units, BASE_MB + (max(trained, tested) + 8 * weights * 30) / MB)


def _evaluations(p: Parameters, alpha: float, lam: float, optimizer: str) -> float:
    """Gradients of one training: more where the decay is weak and the samples are few."""
    if optimizer == "adam":
        return ADAM_EVALUATIONS
    weak = WEAK_EVALUATIONS / math.sqrt(max(lam, 1e-12)) * min(1.0, 0.2 / alpha)
    loose = LOOSE if (p.get("tolerance") or 0) > 1e-8 else 1.0
    direct = DIRECT if p.get("head") == "direct" else 1.0
    return loose * direct * min(WARM_EVALUATIONS + weak, MOST_EVALUATIONS)


def _drawing(samples: float, tokens: int, d: int) -> dict[str, float]:
    """Tokens and labels of so many samples."""
    return {"normals": samples * tokens * d, "products": 2 * samples * tokens * d**2}


def _sweeps(p: Parameters, count: float) -> dict[str, float]:
    """Sweeps of the state evolution: the output channel on its points, the input channel."""
    given = p.get("data", p)
    tokens, nodes = given.get("tokens", 2), p["nodes"]
    dim = given["dim"] if "data" in p else _dim(p["target"])
    if p.get("channel") == "linear":
        return {"spectral sweep": count, "modes": count * dim}
    if tokens == 2:
        points = {"lattice prox": count * 0.077 * nodes**4}
    else:
        logits = tokens * (tokens + 1) / 2 - 1
        sampled = 2 ** math.ceil(math.log2(nodes**4 / 6))
        points = {"sampled prox": count * sampled * logits**2}
    return points | {"spectral sweep": count, "modes": count * dim}


def _hardness(lam: float) -> float:
    """How many times the sweeps of an easy point: weak decays have jumps of the prox."""
    return 1 + JUMPS / math.sqrt(max(lam, 1e-6))


def _theory_memory(p: Parameters) -> float:
    """Some Python, and the Hessians of a block of points above two tokens."""
    tokens = p.get("data", p).get("tokens", 2)
    logits = tokens * (tokens + 1) / 2 - 1 if tokens > 2 else 0
    return BASE_MB + 5 + 8 * 2 * CHUNK * logits**2 * 12 / MB


def _targets(p: Parameters) -> int:
    """Spectra that a theory is solved for."""
    return p["block_size"] if "data" in p else 1


def _data(p: Parameters) -> tuple[int, int, int]:
    return p["data"]["dim"], p["data"]["tokens"], p["block_size"]


def _dim(target: Parameters) -> int:
    """Eigenvalues of a target, none of a limit law."""
    return target.get("dim", len(target.get("eigenvalues", ())))


def _width(given: Parameters) -> int:
    """Columns p0 of the target's factor."""
    target, d = given["target"], given["dim"]
    if target["kind"] == "mp":
        return max(1, round(target["kappa0"] * d))
    return int(np.count_nonzero(target["eigenvalues"])) if "eigenvalues" in target else d
