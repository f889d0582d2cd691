"""Attention as products of matrices.

::

    queries (batch, heads, T, d) ─ · √scale ─┐
    keys    (batch, kv,    S, d) ─ · √scale ─┴─ product ─ + mask ─ softmax ─┐
    values  (batch, kv,    S, e) ───────────────────────────────────────────┴─ product ─> (batch, heads, T, e)

Groups of heads share keys and values, ``heads / kv`` each. All but the products is fp32.
"""

from collections.abc import Callable

import numpy as np

from openmxu_sim.operands.aliases import Floats

Stacks = Callable[[Floats, Floats], Floats]
"""Multiplies (P, M, K) by (P, K, N)."""


def attention(
    stacks: Stacks,
    softmax: Callable[[Floats], Floats],
    operands: tuple[Floats, Floats, Floats],
    *,
    scale: float | None = None,
    mask: np.ndarray | None = None,
    padded: bool = False,
    causal: bool = False,
) -> Floats:
    """Return the values that queries find among keys.

    Parameters
    ----------
    stacks
        The products.
    softmax
        Over the last axis.
    operands
        Queries, keys and values, (batch, heads, tokens, size).
    scale
        Of the products of queries and keys: its root multiplies both of them before. ``None``: 1/√d.
    mask
        Added to scores, or boolean: false is minus infinity; broadcast to (batch, heads, queries, keys).
    padded
        Whether queries see no key beyond a mask of fewer keys, also of one.
    causal
        Whether a query sees only the keys up to its own place.

    A query that sees no key finds zeros.

    Raises
    ------
    ValueError
        Shapes do not fit.
    """
    q, k, v = operands
    if not q.ndim == k.ndim == v.ndim == 4:
        raise ValueError(f"operands must have 4 dimensions, not {q.shape}, {k.shape} and {v.shape}")
    (batch, heads, tokens, size), (_, shared, keys, _) = q.shape, k.shape
    fits = k.shape == (batch, shared, keys, size) and v.shape[:3] == (batch, shared, keys)
    if not fits or not shared or heads % shared:
        raise ValueError(
            "operands must be (batch, heads, queries, size) and (batch, heads or a divisor, keys, size), "
            f"not {q.shape}, {k.shape} and {v.shape}"
        )
    if size < 1 or (scale is not None and not scale >= 0):
        raise ValueError(f"size of queries and scale must be positive, not {size} and {scale}")
    root = np.float32(np.sqrt(1 / np.sqrt(size) if scale is None else scale))
    k, v = (np.repeat(each, heads // shared, axis=1).reshape(batch * heads, keys, each.shape[3]) for each in (k, v))
    scores = stacks((q * root).reshape(batch * heads, tokens, size), np.ascontiguousarray((k * root).swapaxes(1, 2)))
    scores = scores.reshape(batch, heads, tokens, keys)
    for seen in (mask, np.tri(tokens, keys, dtype=bool) if causal else None):
        if seen is not None:
            added = np.where(seen, np.float32(0), np.float32(-np.inf)) if seen.dtype == bool else seen
            if padded and seen.ndim and seen.shape[-1] < keys:
                short = [*[(0, 0)] * (seen.ndim - 1), (0, keys - seen.shape[-1])]
                added = np.pad(added, short, constant_values=-np.inf)
            pairs = zip(added.shape[::-1], scores.shape[::-1], strict=False)
            if added.ndim > scores.ndim or any(size not in (1, whole) for size, whole in pairs):
                raise ValueError(f"mask must broadcast to {scores.shape}, not {seen.shape}")
            scores = scores + np.asarray(added, np.float32)
    unseeing = np.isneginf(scores).all(axis=-1, keepdims=True)
    weights = np.where(unseeing, np.float32(0), softmax(scores)).reshape(batch * heads, tokens, keys)
    return stacks(weights, v).reshape(batch, heads, tokens, v.shape[2])
