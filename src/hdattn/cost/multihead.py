"""Work of the multi-head experiments (paper A): D = dim, H = heads, L = tokens, F spikes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hdattn.cost.work import MB, Parameters, Work, added, model, times

DATA_MB, BASE_MB, TORCH_MB = 56, 120, 245  # Python with numpy, with scipy.stats, with torch
FLOW = {"softmax": (14, 0.42), "usual": (12.5, 0.55)}  # evaluations a tau^b of a flow of SGD
GRADIENT_FLOW = {"softmax": (52, 0.3), "usual": (25, 0.55)}  # and of gradient flow
DESCENT = {"softmax": 26, "usual": 40}  # evaluations of one descent
GROWTH = 150  # evaluations of the short flow that shows growth rates
ALONE = 2.3  # times as many from starts far from the optimum
ENTRY = {"softmax": 1.0, "softmax1": 1.4, "usual": 0.8}  # cost of an entry of the attention
BLOCK = 1024  # points handled at a time
BUFFER = 2**20  # components of tokens held at a time
BATCH_DIM = 50  # a step takes dim/50 sequences unless told otherwise


@model("multihead/data")
def data(p: Parameters) -> Work:
    """Spikes and weights of a block, and the key of each stream."""
    given, block = p["data"], p["block_size"]
    vectors = block * (_features(given["prior"]) + p["heads"]) * given["dim"]
    units = {"start risk": 1, "stream key": block, "normals": vectors}
    return Work(units, DATA_MB + 8 * vectors * 4 / MB)


@model("multihead/sgd")
def sgd(p: Parameters) -> Work:
    """Fresh sequences for every step: their components are drawn, read and learnt from."""
    given, block = p["data"], p["block_size"]
    dim, tokens, heads = given["dim"], given["tokens"], p["heads"]
    samples = block * p["tau_max"] * dim / p["gamma"]
    batch = p["batch"] or max(1, dim // BATCH_DIM)
    groups = max(1, math.ceil(block * batch * tokens * dim / BUFFER))
    steps = samples / block / batch * groups
    units = {
        "start torch": 1,
        "component": samples * tokens * dim,
        "head component": samples * tokens * dim * heads,
        "instance step": samples / batch,
        "SGD step": steps,
        "instance": block,
    }
    records = 8 * block * p["tau_points"] * heads * (heads + _features(given["prior"]) + 2)
    held = 4 * (BUFFER + batch * tokens * dim * block + block * heads * dim * 4)
    return Work(units, TORCH_MB + (held + 4 * records) / MB)


@model("multihead/flow")
def flow(p: Parameters) -> Work:
    """Flow of each instance of a block, heads outside the span of the spikes."""
    given = p["data"]
    one = _flow({**p, **given}, p["heads"], p["tau_max"], p["gamma"])
    units = added({"start flow": 1}, times(p["block_size"], one))
    return Work(units, _points_memory(p["base_points"], given, p["heads"], p["heads"]))


@model("multihead/flows")
def flows(p: Parameters) -> Work:
    """Gradient flows of many seeds in the span of the spikes."""
    one = _flow(p, p["heads"], p["tau_max"])
    if p["losses"]:
        one = added(one, times(4 * p["tau_points"] / 2, _evaluation(p, p["heads"])))
    if p["end_loss"]:
        one = added(one, {"quadrature": 1})
    units = added({"start flow": 1}, times(p["block_size"], one))
    return Work(units, _points_memory(p["base_points"], p, p["heads"]))


@model("multihead/escape")
def escape(p: Parameters) -> Work:
    """A flow at each D and scramble, until long after the escape."""
    units: dict[str, float] = {"start flow": 1}
    for dim in p["dims"]:
        tau = 2.5 * p["heads"] + math.log(dim)
        one = _flow(p, p["heads"], tau, p["gamma"])
        units = added(units, times(p["scrambles"], one))
    noise = p["heads"] if p["gamma"] else 0
    return Work(units, _points_memory(p["base_points"], p, p["heads"], noise))


@model("multihead/stability")
def stability(p: Parameters) -> Work:
    """A Hessian by automatic differentiation and a short flow, of each L, H and scramble."""
    units: dict[str, float] = {"start torch": 1}
    features, points = _features(p["prior"]), _images(p["prior"]) * p["base_points"]
    for tokens in p["tokens"]:
        for heads in p["heads"]:
            row = {"autograd": points * tokens * heads * (heads * features)}
            one = times(GROWTH, _evaluation({**p, "tokens": tokens}, heads))
            units = added(units, times(p["scrambles"], added(row, one)))
    held = 8 * points * max(p["tokens"]) * (max(p["heads"]) * 12 + features * 4)
    return Work(units, TORCH_MB + held / MB)


@model("multihead/optimum")
def optimum(p: Parameters) -> Work:
    """Descents from several starts at one point."""
    one = times(ALONE * _of(DESCENT, p["activation"]), _evaluation(p, p["heads"]))
    units = added({"start flow": 1, "quadrature": 1}, times(p["starts"] + 1, one))
    return Work(units, _points_memory(p["base_points"], p, p["heads"]))


@model("multihead/optima")
def optima(p: Parameters) -> Work:
    """Descents at every point of a curve: random starts, those of both neighbours, a last one."""
    descents = (p["starts"] + 3) + (p["polish"] if p["polish"] > 1 else 0)
    effort = descents * _of(DESCENT, p["activation"])
    units: dict[str, float] = {"start flow": 1}
    for point in p["points"]:
        here = {**p, "prior": point["prior"]}
        one = times(effort, _evaluation(here, point["heads"]))
        pairs = point["heads"] ** 2 if p["activation"] != "bayes" else 1
        units = added(units, one, {"quadrature": pairs})
    heads = max(point["heads"] for point in p["points"])
    here = {**p, "prior": p["points"][0]["prior"]}
    return Work(units, _points_memory(p["polish"] * p["base_points"], here, heads, more=4))


@model("multihead/pruning")
def pruning(p: Parameters) -> Work:
    """Long flows of a block in each case, losses of all subsets, and survivors trained again."""
    units: dict[str, float] = {"start flow": 1}
    for case in p["cases"]:
        heads, images = case["heads"], _images(case["prior"])
        here = {**p, "prior": case["prior"], "base_points": max(2, p["points"] // images)}
        one = _flow(here, heads, p["tau_max"])
        if p["retrain_tau"]:
            one = added(one, times(heads / 2, _flow(here, heads, p["retrain_tau"])))
        subsets = {"score": 2**heads * p["scan_points"] * images * p["tokens"] * heads / 8}
        judged = {"quadrature": heads**2} if p["activation"] != "bayes" else subsets
        units = added(units, times(p["block_size"], added(one, judged)))
    most = max(case["heads"] for case in p["cases"])
    here = {**p, "prior": p["cases"][-1]["prior"], "tokens": p["tokens"]}
    return Work(units, _points_memory(p["points"] // _images(here["prior"]), here, most))


@model("multihead/deactivation")
def deactivation(p: Parameters) -> Work:
    """Many heads are trained by a flow; all heads are looked at on fresh sequences."""
    many = p["many"]
    base = max(2, many["points"] // _images(many["prior"]))
    here = {**many, "activation": p["activation"], "base_points": base}
    one = _flow(here, many["heads"], many["tau_max"])
    looks: dict[str, float] = {}
    for block in p["sgd"]:
        given = block["data"]
        drawn = block["block_size"] * p["tested"] * given["tokens"] * given["dim"]
        looks = added(looks, {"component": drawn, "instance": block["block_size"]})
    units = added({"start torch": 1}, one, looks)
    largest = max((b["data"]["dim"] * b["data"]["tokens"] for b in p["sgd"]), default=0)
    return Work(units, TORCH_MB + 30 + 4 * 2 * p["tested"] * largest / MB)


@model("multihead/bayes")
def bayes(p: Parameters) -> Work:
    """One risk by quadrature."""
    return Work({"start risk": 1, "risk": _grid(p["prior"])}, BASE_MB)


@model("multihead/bayes_curve")
def bayes_curve(p: Parameters) -> Work:
    """A risk by quadrature for each prior."""
    points = sum(_grid(prior) for prior in p["priors"])
    return Work({"start risk": 1, "risk": points}, 2 * BASE_MB)


@model("multihead/plateau")
def plateau(p: Parameters) -> Work:
    """Closed forms on a grid."""
    return Work({"start risk": 1, "plateau": len(p["tokens"]) * len(p["mu"])}, 60)


def _flow(p: Parameters, heads: int, tau: float, gamma: float = 0) -> dict[str, float]:
    """One flow up to ``tau``, with noise directions where it is that of SGD."""
    rate, power = _of(FLOW if gamma else GRADIENT_FLOW, p["activation"])
    noise = heads if "data" in p or gamma else 0
    return times(rate * max(tau, 1.0) ** power, _evaluation(p, heads, noise))


def _evaluation(p: Parameters, heads: int, noise: int = 0) -> dict[str, float]:
    """One loss with its gradient on all points and their images."""
    images = _images(p["prior"])
    entries = p["base_points"] * images * p["tokens"] * heads
    return {
        "score": entries * _of(ENTRY, p["activation"]),
        "projection": entries * (_features(p["prior"]) + 2 * noise),
        "block": images * math.ceil(p["base_points"] / BLOCK),
    }


def _of(table: Mapping[str, Any], activation: str) -> Any:
    """Entry of an activation, or what is usual."""
    return table.get(activation, table["usual"])


def _points_memory(
    base_points: int, p: Parameters, heads: int, noise: int = 0, more: float = 1.0
) -> float:
    """Sobol points with their sorting, and one block of scores."""
    numbers = base_points * p["tokens"] * (_features(p["prior"]) + noise)
    return BASE_MB + (8 * 3 * more * numbers + 8 * 1024 * p["tokens"] * heads * 12) / MB


def _features(prior: Parameters) -> int:
    """Number of spikes F."""
    return len(prior["support"][0] if "support" in prior else prior["std"])


def _images(prior: Parameters) -> int:
    """Images of each point: support points, or joint flips of what has a random sign."""
    if "support" in prior:
        return len(prior["support"])
    return 2 ** _spread(prior["std"])


def _spread(std: Sequence[float]) -> int:
    return sum(s > 0 for s in std)


def _grid(prior: Parameters) -> float:
    """Nodes of a risk's quadrature: a grid over the directions that theta spans."""
    if "support" in prior:
        return 25.0 ** min(len(prior["support"]), _features(prior), 3)
    spanned = sum(bool(m or s) for m, s in zip(prior["mean"], prior["std"], strict=True))
    return 25.0 ** min(spanned, 3)
