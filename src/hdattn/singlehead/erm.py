"""Training of an attention head: minimise the regularised loss on its weights (paper B).

``L(W) = sum_mu sum_ab (y_ab - A_ab)^2 + lambda ||W||_F^2`` with ``S = W W^T / sqrt(p d)``, or
another of the heads of ``heads.py``. Values are reported per sample, as the state evolution
reports them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hdattn.errors import UserError
from hdattn.seeds import generator
from hdattn.singlehead.attention import Array
from hdattn.singlehead.heads import HEADS, Head, head_named
from hdattn.singlehead.objective import Loss, attention_loss
from hdattn.singlehead.optimisers import Function, Minimum, adam, lbfgs
from hdattn.singlehead.preconditioner import curvature_scaling
from hdattn.singlehead.samples import INITIALISATION

# tolerance on the relative change of the objective over ten steps, largest number of steps
_STOPPING = {"lbfgs": (1e-8, 20_000), "adam": (1e-7, 10_000)}


@dataclass(frozen=True, eq=False)
class Fit:
    """A trained head.

    Attributes
    ----------
    W: factor [d, p] of ``S = W W^T / sqrt(p d)``, or the weights of another head.
    objective: ``train_loss + penalty_value``, per sample.
    train_loss: ``(1/n) sum_mu sum_ab (y_ab - A_ab)^2``, or what the task has in its place.
    penalty_value: ``(lambda/n) ||W||_F^2 = (lambda_eff/alpha) Tr S/d``, or that of the head.
    converged, iterations, evaluations: of the optimiser.
    gradient_norm: Euclidean norm of the gradient of ``objective`` with respect to W.
    history: ``objective`` at the start and after every step [iterations + 1].
    head: name of the head, ``tied`` unless said otherwise.
    """

    W: Array
    objective: float
    train_loss: float
    penalty_value: float
    converged: bool
    iterations: int
    evaluations: int
    gradient_norm: float
    history: Array
    head: str = "tied"

    @property
    def S(self) -> Array:
        """Trained attention matrix [d, d]."""
        return HEADS[self.head].matrix(self.W)


def draw_start(
    data: Mapping[str, Any],
    root_seed: int,
    instance: int,
    kappa: float,
    trial: int = 0,
    head: str = "tied",
) -> Array:
    """Initial factor W [d, p] iid N(0, 1), ``p = round(kappa d)``; ``trial`` numbers the draws.

    Unit variance makes S as large as a Marchenko-Pastur target of ratio kappa: measured to need
    the fewest steps (initial scales .03, .3 and 1 reach the same minimum).
    """
    rng = generator(root_seed, data, instance, INITIALISATION, trial)
    return head_named(head).draw(rng, int(data["dim"]), kappa)


def train(
    x: Array,
    y: Array,
    *,
    lam: float,
    kappa: float,
    beta: float = 1.0,
    optimizer: str = "lbfgs",
    start: Array | None = None,
    tolerance: float | None = None,
    max_iterations: int | None = None,
    device: str = "auto",
    head: str = "tied",
    task: str = "seq2lab",
) -> Fit:
    """Train on tokens ``x`` [n, T, d] with label attention ``y`` [n, T, T].

    See :func:`fit` for the options and ``attention_loss`` for ``device`` and ``task``; to train
    several times on one data set, build its ``attention_loss`` once and call :func:`fit`.
    """
    symmetric = head_named(head).symmetric
    return fit(
        attention_loss([(x, y)], beta, device, task=task, symmetric=symmetric),
        lam=lam,
        kappa=kappa,
        optimizer=optimizer,
        start=start,
        tolerance=tolerance,
        max_iterations=max_iterations,
        head=head,
    )


def fit(
    loss: Loss,
    *,
    lam: float,
    kappa: float,
    optimizer: str = "lbfgs",
    start: Array | None = None,
    tolerance: float | None = None,
    max_iterations: int | None = None,
    head: str = "tied",
) -> Fit:
    """Minimise ``loss(W W^T / sqrt(p d)) + lam ||W||_F^2`` over W [d, p], ``p = round(kappa d)``.

    ``head`` trains other weights: ``untied`` factors [2, d, p] (whose loss must be one for any S)
    or a symmetric S [d, d] ``direct``-ly, each with its penalty; see ``heads.py``.

    ``optimizer``: ``lbfgs`` (relative decrease over ten steps below 1e-8: the objective is then
    within 1e-9 of its minimum, 1e-6 where lam is below 1e-4 and the samples do not determine S)
    or ``adam`` (rate 0.1, ten changes in a row below 1e-7, typically 1e-6 to 1e-5 above the
    minimum); ``tolerance`` and ``max_iterations`` replace these. ``start`` is an initial W;
    without it W is drawn iid N(0, 1) from a fixed seed. A start of low rank stays on it (the
    other modes sit at a saddle): add a little noise to warm starts (``fit_path`` does). At
    lam = 0 the loss alone is minimised: below the interpolation threshold the minimum is zero and
    the minimiser not unique, so that S is not the limit lam -> 0. Raises ``UserError`` for
    impossible arguments.
    """
    usual_tolerance, usual_iterations = _stopping(optimizer)
    if not (math.isfinite(lam) and lam >= 0):
        raise UserError(f"lam is {lam}; give a finite number >= 0")
    kind = head_named(head)
    if loss.symmetric and not kind.symmetric:
        raise UserError(
            f"{head} factors make an S that is not symmetric; build the loss with symmetric=False"
        )
    initial = _checked_start(start, kind, loss.dim, kappa)
    tolerance = usual_tolerance if tolerance is None else tolerance
    max_iterations = usual_iterations if max_iterations is None else max_iterations
    if not (tolerance > 0 and max_iterations >= 1):
        raise UserError(
            f"tolerance {tolerance}, max_iterations {max_iterations}: give a tolerance > 0 and "
            "at least one iteration"
        )
    decay = lam * kind.decay(loss.dim, kappa)
    function = penalised(loss, decay, initial.shape, kind)
    problem = function, initial.ravel(), tolerance, max_iterations
    if optimizer == "adam":
        minimum = adam(*problem)
    else:
        scaling = curvature_scaling(loss, lam, initial.shape) if kind.factored else None
        minimum = lbfgs(*problem, scaling=scaling)
    return _report(minimum, decay, loss.samples, initial.shape, kind)


def penalised(
    loss: Loss, decay: float, shape: tuple[int, ...], head: Head = HEADS["tied"]
) -> Function:
    """The objective per sample as a function of the flattened weights w, with its gradient.

    The penalty is ``decay ||w||^2``.
    """

    def function(w: Array) -> tuple[float, Array]:
        weights = w.reshape(shape)
        value, gradient_s = loss.value_and_gradient(head.matrix(weights))
        gradient = head.pullback(weights, gradient_s).ravel() + (2 * decay) * w
        return (value + decay * float(w @ w)) / loss.samples, gradient / loss.samples

    return function


def _stopping(optimizer: str) -> tuple[float, int]:
    if optimizer not in _STOPPING:
        raise UserError(f"optimizer {optimizer!r} does not exist; use one of {list(_STOPPING)}")
    return _STOPPING[optimizer]


def _checked_start(start: Array | None, head: Head, dim: int, kappa: float) -> Array:
    shape = head.shape(dim, kappa)
    if start is None:
        return head.draw(np.random.default_rng(0), dim, kappa)
    start = np.array(start, dtype=np.float64)
    if start.shape != shape:
        raise UserError(
            f"start has shape {start.shape}; dim, kappa and head ask for weights of shape {shape}"
        )
    if not np.all(np.isfinite(start)) or (head.factored and not np.any(start)):
        raise UserError("start is zero or not finite; W = 0 is a saddle: start from a random W")
    return start


def _report(
    minimum: Minimum, decay: float, samples: int, shape: tuple[int, ...], head: Head
) -> Fit:
    penalty = decay / samples * float(minimum.w @ minimum.w)
    return Fit(
        W=minimum.w.reshape(shape),
        objective=minimum.value,
        train_loss=minimum.value - penalty,
        penalty_value=penalty,
        converged=minimum.converged,
        iterations=minimum.iterations,
        evaluations=minimum.evaluations,
        gradient_norm=float(np.linalg.norm(minimum.gradient)),
        history=minimum.history,
        head=head.name,
    )
