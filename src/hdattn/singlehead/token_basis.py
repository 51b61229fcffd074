"""Tokens in an orthonormal basis whose first vector is constant: what the softmax sees of S."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from hdattn.errors import UserError
from hdattn.singlehead.attention import Array


def token_basis(tokens: int) -> Array:
    """Orthonormal basis [T, T] of token space; row 0 is the constant vector."""
    start = np.column_stack([np.ones(tokens), np.eye(tokens)[:, 1:]])
    basis = np.linalg.qr(start)[0].T
    return basis * np.sign(basis[:1, :1])


def basis_pairs(tokens: int, symmetric: bool = True) -> list[tuple[int, int]]:
    """Pairs (j, k), k >= 1, of basis tokens that the softmax can see; j <= k if S is symmetric."""
    return [(j, k) for k in range(1, tokens) for j in range(k + 1 if symmetric else tokens)]


def score_map(tokens: int, symmetric: bool = True) -> Array:
    """Matrix [T^2, K]: scores h_ab (flattened) from the K products of :func:`basis_pairs`."""
    basis = token_basis(tokens)
    columns = []
    for j, k in basis_pairs(tokens, symmetric):
        outer = np.outer(basis[j], basis[k])
        columns.append((outer + outer.T if symmetric and j != k else outer).ravel())
    return np.array(columns).T


def sequence_metric(x: Array) -> Array:
    """Matrix G [T, T, n] of basis tokens ``x`` [T, n, d]: ``||E x||^2/d = Tr(E G E^T)``."""
    basis = token_basis(len(x))
    products = np.einsum("jnd,knd->jkn", x, x, optimize=True) / x.shape[2]
    return np.einsum("ja,jkn,kb->abn", basis, products, basis, optimize=True)


def blocks(batches: Iterable[tuple[Array, Array]], size: int) -> Iterator[tuple[Array, Array]]:
    """Samples ``size`` at a time: tokens in the token basis [T, c, d], labels [T, T, c].

    Blocks do not depend on how the batches were cut, so neither do the bits of the loss. Raises
    ``UserError`` unless every x is [n, T, d] and y [n, T, T], T >= 2.
    """
    pieces: list[tuple[Array, Array]] = []
    room = size
    for x, y in batches:
        _check_shapes(x, y)
        start = 0
        while start < len(x):
            stop = min(len(x), start + room)
            pieces.append((x[start:stop], y[start:stop]))
            room -= stop - start
            start = stop
            if room == 0:
                yield _block(pieces)
                pieces, room = [], size
    if pieces:
        yield _block(pieces)


def _block(pieces: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    x = np.concatenate([piece[0] for piece in pieces])
    y = np.concatenate([piece[1] for piece in pieces])
    samples, tokens, dim = x.shape
    rotated = np.empty((tokens, samples, dim))
    np.einsum("ka,nad->knd", token_basis(tokens), x, out=rotated)
    return rotated, np.ascontiguousarray(np.moveaxis(y, 0, -1))


def _check_shapes(x: Array, y: Array) -> None:
    shape = np.shape(x)
    if len(shape) != 3 or shape[1] < 2 or np.shape(y) != (*shape[:2], shape[1]):
        raise UserError(
            f"tokens of shape {shape} and labels of shape {np.shape(y)} do not fit; "
            "give x [n, T, d] and y [n, T, T] with T >= 2"
        )
