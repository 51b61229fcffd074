"""Whether an activation that a user wrote is one: shapes, finite values, its own derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hdattn.errors import UserError
from hdattn.multihead.activation_base import Activation

_HEADS, _TOKENS, _SAMPLES = 3, 4, (2, 5)
_CLOSE = 1e-5  # of derivatives to central differences, whose own error is 1e-9 or so
_LONGEST = 160


def check_activation(rule: Activation, file: str) -> None:
    """``UserError`` with a line that names ``file`` where ``rule`` will not do."""
    try:
        _check(rule)
    except _Flaw as flaw:
        raise UserError(
            f"{file}: {flaw}; mend it as docs/add-an-activation.md has it, or take it away"
        ) from flaw


class _Flaw(Exception):
    """What is wrong with an activation."""


def _check(rule: Activation) -> None:
    rng = np.random.default_rng(0)
    chi = rng.standard_normal((_HEADS, _TOKENS, *_SAMPLES))
    e = rng.standard_normal((_TOKENS, *_SAMPLES))
    b, c = rng.standard_normal(_HEADS), 1.3
    attention = _attention(rule, chi, b, c)
    _compare(rule, chi, b, c, attention)
    given = _tried("forward", lambda: rule.forward(chi.copy(), b, c))
    if not (isinstance(given, tuple) and len(given) == 2):
        raise _Flaw("forward returns no pair (attention, what pullback needs)")
    _array("the attention of forward", given[0], attention.shape, attention, 1e-9)
    if type(rule).pullback is not Activation.pullback:
        products = _tried("pullback", lambda: rule.pullback(given[1], attention, c, e))
        _derivatives(rule, products, Activation.pullback(rule, (chi, b, c), attention, c, e))


def _attention(rule: Activation, chi: np.ndarray, b: Any, c: Any) -> np.ndarray:
    """Attention at the scores chi, checked by itself."""
    scores = chi.copy()
    attention = _tried("attention", lambda: rule.attention(scores, b, c))
    _array("attention", attention, chi.shape[1:])
    if not np.array_equal(scores, chi):
        raise _Flaw("attention changes the scores that it is given: work on a copy")
    return attention


def _compare(
    rule: Activation, chi: np.ndarray, b: np.ndarray, c: float, attention: np.ndarray
) -> None:
    """Attention of fewer samples, with biases per sample, and at another scale c."""
    alone = _attention(rule, chi[..., :1].copy(), b, c)
    if not np.allclose(alone, attention[..., :1], rtol=1e-9, atol=1e-12):
        raise _Flaw("attention of a sample depends on the others: each is by itself")
    if rule.has_b:
        own = np.broadcast_to(b[:, None, None], (_HEADS, _SAMPLES[0], 1))
        if not np.allclose(_attention(rule, chi, own, c), attention, rtol=1e-9, atol=1e-12):
            raise _Flaw("attention takes no biases b [H, *P]: bring them into shape by per_head")
    if rule.has_c and not np.allclose(_attention(rule, chi, b, 2 * c), 2 * attention, rtol=1e-9):
        raise _Flaw("attention is not linear in c, and has_c says so")


def _derivatives(rule: Activation, found: Any, expected: tuple[Any, Any, Any]) -> None:
    if not (isinstance(found, tuple) and len(found) == 3):
        raise _Flaw("pullback returns no triple (dl/dchi, dl/db or None, dl/dc or None)")
    for name, ours, right in zip(("dl/dchi", "dl/db", "dl/dc"), found, expected, strict=True):
        if right is not None:
            _array(f"{name} of pullback", ours, right.shape, right, _CLOSE)
        elif ours is not None:
            raise _Flaw(f"pullback returns {name} of a parameter that there is not: return None")


def _array(
    name: str,
    value: Any,
    shape: tuple[int, ...],
    expected: np.ndarray | None = None,
    close: float = 0.0,
) -> None:
    """Refuse what is no array of this shape, not finite, or not near ``expected``."""
    if not isinstance(value, np.ndarray):
        raise _Flaw(f"{name} is no array but a {type(value).__name__}")
    if value.shape != shape:
        scores = (_HEADS, _TOKENS, *_SAMPLES)
        raise _Flaw(f"{name} has shape {value.shape}, not {shape}, at scores chi {scores}")
    if not np.isfinite(value).all():
        raise _Flaw(f"{name} is not finite at scores of size 1")
    if expected is not None:
        distance = np.max(np.abs(value - expected))
        if distance > close * max(1.0, np.max(np.abs(expected))):
            what = "central differences of attention" if close == _CLOSE else "attention"
            raise _Flaw(f"{name} is off by {distance:.2g} from {what}")


def _tried(name: str, call: Callable[[], Any]) -> Any:
    """What ``call`` returns; numpy's warnings aside, since what is not finite is told of."""
    try:
        with np.errstate(all="ignore"):
            return call()
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST]
        raise _Flaw(f"{name} fails ({text})") from error
