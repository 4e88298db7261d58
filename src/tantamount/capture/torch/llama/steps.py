"""The programs of the parts of a training iteration: forward and backward of a piece; reduction, norm and update."""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from tantamount.capture.torch.llama.experts import ExpertShape, expert_layer
from tantamount.capture.torch.llama.model import Shape, embedded, layer, loss
from tantamount.capture.torch.llama.ranks import Ranks, added, gathered, scattered, total

__all__ = ["Step", "embedding_step", "head_step", "layer_step", "norm_step", "reduce_step", "tied_step", "update_step"]

Step = Callable[..., dict[str, torch.Tensor]]
Tensors = Mapping[str, torch.Tensor]


# ---------------------------------------------------------------------------------------------- forward and backward
def _watched(tensors: Tensors) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().requires_grad_() for name, tensor in tensors.items()}


def _gradients(
    y: Sequence[torch.Tensor], given: Tensors, dy: Sequence[torch.Tensor] | None, ranks: Ranks, early: Mapping[str, int]
) -> dict[str, torch.Tensor]:
    """The gradient of everything that is given; those of ``early`` (name: dimension) added up over dp at once, of which
    each rank keeps its part."""
    found = torch.autograd.grad(tuple(y), tuple(given.values()), dy)
    return {
        f"d_{name}": scattered(grad, early[name], ranks.group("dp")) if name in early else grad
        for name, grad in zip(given, found, strict=True)
    }


def _used(w: Tensors, shards: Mapping[str, int], ranks: Ranks) -> dict[str, torch.Tensor]:
    """Parameters as they are computed with: of ``shards`` (name: dimension) a rank of dp has a part, and the whole is
    gathered."""
    return {name: gathered(x, shards[name], ranks.group("dp")) if name in shards else x for name, x in w.items()}


def embedding_step(ranks: Ranks, early: Mapping[str, int], shards: Mapping[str, int]) -> Step:
    """Rows of the embedding, and the gradient of its table. If layers add to the loss, ``extra`` is what they have
    added so far: nothing."""

    def run(
        tokens: torch.Tensor, d_y: torch.Tensor, d_extra: torch.Tensor | None = None, **w: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        w = _watched(w)
        y = embedded(tokens, _used(w, shards, ranks)["table"], ranks)
        first = {} if d_extra is None else {"extra": torch.zeros((), device=y.device)}
        return {"y": y.detach(), **first, **_gradients((y,), w, (d_y,), ranks, early)}

    return run


def layer_step(
    shape: Shape | ExpertShape, ranks: Ranks, early: Mapping[str, int], shards: Mapping[str, int], again: bool
) -> Step:
    """A layer forward and backward. ``bias`` has no gradient. ``again``: the forward pass keeps its input only, and the
    backward pass begins by doing it once more. ``before`` is what layers before this one add to the loss, ``extra``
    that and what this one does."""

    def one(given: Tensors, rest: Tensors) -> dict[str, torch.Tensor]:
        w = _used({**rest, **given}, shards, ranks)
        if isinstance(shape, Shape):
            return {"y": layer(given["x"], w, shape, ranks)}
        y, own = expert_layer(given["x"], w, shape, ranks)
        if "before" not in given:
            return {"y": y}
        return {"y": y, "extra": given["before"] if own is None else given["before"] + own}

    def run(**given: torch.Tensor) -> dict[str, torch.Tensor]:
        back = {name: given.pop(f"d_{name}") for name in ("y", "extra") if f"d_{name}" in given}
        rest = {name: given.pop(name) for name in ("bias",) if name in given}
        given = _watched(given)
        found = one(given, rest)
        saved = _recomputed(one, given, rest) if again else found
        made = {name: value.detach() for name, value in found.items()}
        return {**made, **_gradients(tuple(saved.values()), given, tuple(back.values()), ranks, early)}

    return run


def _recomputed(
    forward: Callable[[Tensors, Tensors], dict[str, torch.Tensor]], given: Tensors, rest: Tensors
) -> dict[str, torch.Tensor]:
    """The forward pass once more, of whose tensors the backward pass is made."""
    return forward(given, rest)


def head_step(tokens: int, ranks: Ranks, early: Mapping[str, int], shards: Mapping[str, int]) -> Step:
    """The loss of ``tokens`` tokens in all with what layers add to it (``before``), and its gradients. If the sequence
    is cut, each rank of tp has seen a part of what layers add."""

    def run(labels: torch.Tensor, **given: torch.Tensor) -> dict[str, torch.Tensor]:
        given = _watched(given)
        found = loss(given["x"], labels, _used(given, shards, ranks), tokens, ranks)
        if "before" in given:
            found = found + added(given["before"], ranks.group("tp") if ranks.sequence else None)
        return {"loss": found.detach(), **_gradients((found,), given, None, ranks, early)}

    return run


# ---------------------------------------------------------------------------------------------- after the microbatches
Axes = tuple[str, ...]


def _reduced(grad: torch.Tensor, sums: Axes, early: bool, dim: int | None, ranks: Ranks) -> torch.Tensor:
    """A gradient added up over the axes ``sums``; over dp unless it was ``early``, and then, if there is a dimension,
    each rank keeps its part of it."""
    cut = dim is not None and "dp" in sums and not early
    over = tuple(axis for axis in sums if axis != "dp" or (not cut and not early))
    grad = total(grad, ranks.group(*over))
    return scattered(grad, dim, ranks.group("dp")) if cut and dim is not None else grad


def reduce_step(
    sums: Mapping[str, Axes],
    squares: Mapping[str, Mapping[Axes, Sequence[str]]],
    early: bool,
    shards: Mapping[str, int],
    ranks: Ranks,
) -> Step:
    """Gradients added up over the ranks that have summands (``sums``: the axes of each), or a rank's part of that; and
    the sums of the squares: ``squares`` says of which gradients each of them is, by the axes over which they are added
    up here. If pieces have copies, the squares are counted where the first copy is."""

    def run(**given: torch.Tensor) -> dict[str, torch.Tensor]:
        out = {f"g_{w}": _reduced(given[f"d_{w}"], axes, early, shards.get(w), ranks) for w, axes in sums.items()}
        for name, of in squares.items():
            out[name] = torch.zeros((), device=next(iter(given.values())).device)
            for axes, weights in of.items():
                found = out[name] if not axes else torch.zeros_like(out[name])
                for w in weights if ranks.rank("copy") == 0 else ():
                    found = found + out[f"g_{w}"].square().sum()
                out[name] = out[name] + total(found, ranks.group(*axes)) if axes else found
        return out

    return run


def tied_step(
    name: str, sums: Axes, squares: Mapping[str, bool], early: bool, shards: Mapping[str, int], ranks: Ranks
) -> Step:
    """The gradient of a parameter that two pieces have, added up over both and over the ranks that have summands; the
    squares (True for the sum that they are in) are counted where the first copy is."""

    def run(grad: torch.Tensor) -> dict[str, torch.Tensor]:
        found = _reduced(total(grad, ranks.group("tied")), sums, early, shards.get(name), ranks)
        out = {f"g_{name}": found}
        for key, here in squares.items():
            counted = here and ranks.rank("tied") == 0
            out[key] = found.square().sum() if counted else torch.zeros((), device=grad.device)
        return out

    return run


def norm_step(most: float, squares: Mapping[str, Axes], ranks: Ranks) -> Step:
    """The factor for all gradients with which their norm is at most ``most``. ``squares``: sums of squares, and
    the axes over which each is still to be added up."""

    def run(**given: torch.Tensor) -> dict[str, torch.Tensor]:
        found = [total(given[name], ranks.group(*axes)) for name, axes in squares.items()]
        whole = total(torch.stack(found).sum(), ranks.group("pp"))
        return {"factor": torch.clamp(most / (whole.sqrt() + 1e-6), max=1.0)}

    return run


def update_step(names: Sequence[str], optimizer: str, masters: Mapping[str, int], ranks: Ranks) -> Step:
    """The optimizer's step, on gradients that are clipped first: ``sgd``, or ``adamw``, whose corrections of the biases
    are numbers that are computed beforehand, as fused optimizers have it. Of ``masters`` (name: dimension) a rank of dp
    updates its part of a master copy, and the parameter is gathered from all."""

    def run(factor: torch.Tensor, lr: torch.Tensor, **given: torch.Tensor) -> dict[str, torch.Tensor]:
        out: dict[str, torch.Tensor] = {}
        for name in names:
            w, g = given[f"master_{name}" if name in masters else name], given[f"g_{name}"] * factor
            if optimizer == "sgd":
                new = w - lr * g
            else:
                first, second = 0.9, 0.95
                m = first * given[f"m_{name}"] + (1 - first) * g
                v = second * given[f"v_{name}"] + (1 - second) * g * g
                high, low = m * given["correction1"], (v * given["correction2"]).sqrt() + 1e-8
                new = w - lr * (high / low + 0.1 * w)
                out |= {f"new_m_{name}": m, f"new_v_{name}": v}
            if name in masters:
                out[f"new_master_{name}"] = new
                new = gathered(new, masters[name], ranks.group("dp"))
            out[f"new_{name}"] = new
        return out

    return run
