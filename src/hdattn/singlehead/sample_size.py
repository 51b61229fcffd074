"""How many samples a sample ratio makes; light, since planning asks too."""

from __future__ import annotations

from collections.abc import Iterable

from hdattn.errors import UserError


def sample_count(alpha: float, dim: int) -> int:
    """``n = round(alpha d^2)``; ``UserError`` where alpha d^2 is below one sample."""
    if not alpha * dim**2 >= 1:
        raise UserError(
            f"alpha = {alpha:g} at dim = {dim} makes alpha d^2 = {alpha * dim**2:.3g} samples, not "
            f"one; give an alpha of at least {1 / dim**2:.3g}, or a larger dim"
        )
    return round(alpha * dim**2)


def check_sample_ratios(alphas: Iterable[float], dim: int) -> None:
    """``UserError`` where one of ``alphas`` makes no sample at ``dim``."""
    for alpha in alphas:
        sample_count(alpha, dim)
