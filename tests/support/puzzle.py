"""A truth that the calculus does not prove, so that execution decides: ``cos(atan(x))^2 (1 + x^2)`` is 1."""

from __future__ import annotations

__all__ = ["one"]


def one(*shape: int) -> str:
    """The text of a program up to its tensor ``one``, which is 1 everywhere; ``x`` has this shape."""
    return f"""
    x: float32[{", ".join(map(str, shape))}]
    angle = aten.atan.default(x)
    c = aten.cos.default(angle)
    cc = mul(c, c)
    xx = mul(x, x)
    s = add(xx, 1)
    one = mul(cc, s)
"""
