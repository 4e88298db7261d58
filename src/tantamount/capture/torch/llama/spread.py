"""The spread of a model over ranks: for every parameter the axes that cut it, those over which its gradient is a sum,
and the dimension along which ZeRO cuts it. All that parts and relations of a plan need is said once, here.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import lcm, prod
from typing import Any

import torch

from tantamount.capture.torch.llama.experts import ExpertShape
from tantamount.capture.torch.llama.model import Shape
from tantamount.errors import UserError

__all__ = [
    "CONTEXTS", "FROZEN", "Degrees", "Sizes", "Weight", "empty", "layers_of", "pieces_of", "said", "tensors",
    "weights_of",
]  # fmt: skip

Sizes = Mapping[str, tuple[int, ...]]

# The dimension along which tensor parallelism cuts a parameter; what is not here, every rank has whole.
_CUT = {"table": 0, "q": 0, "k": 0, "v": 0, "o": 1, "gate": 0, "up": 0, "down": 1, "output": 0}
_CUT |= {"qb": 0, "kvb": 0, "sgate": 0, "sup": 0, "sdown": 1}
_EXPERTS = ("egate", "eup", "edown")  # cut along their first dimension, over tp, or over ep if tokens are sent
_LOCAL = ("norm1", "norm2", "norm", "qa", "qanorm", "kva", "kvnorm", "router")  # meet a part of the sequence each
CONTEXTS = ("gather", "ulysses", "ring")
LAYOUTS = ("contiguous", "zigzag")
FROZEN = ("bias",)  # without a gradient: what balances the experts changes it by other means


@dataclass(frozen=True)
class Degrees:
    """The degrees by which a model is spread, and its data: ``batch`` rows of ``seq`` tokens in one iteration.

    ``zero``: 1, optimizer states are cut over dp; 2, gradients as well, in every microbatch; 3, parameters as well;
    ``zero_first``: along their first dimension, what tp has cut once more.
    ``sp``: sequence parallelism over the ranks of tp. ``cp`` ranks have parts of the sequence, attention is of the kind
    ``context`` (gather, ulysses, ring); ``cp_layout`` is contiguous, or zigzag: each has a chunk from the front and one
    from the back. ``ep`` ranks have parts of the experts, to which tokens are sent,
    ``capacity`` of a rank's part of a row at most (0: all of them). ``tied``: the head's matrix is the embedding's
    table. ``recompute``: layers keep their input only, and do their forward pass again in the backward pass. ``sized``:
    programs are for any number of rows, so that the last microbatch may have fewer than the others. ``aux_loss`` is
    the coefficient of the loss that balances experts (0: none), whose fractions are over each ``row`` or the
    ``batch``. ``layouts`` are degrees that kinds of pieces have instead: of dp, ep, cp and tp.
    ``beside`` are the degrees, of dp, ep, cp and tp, of further pipelines of as many stages, for a part of the
    microbatches each."""

    dp: int
    tp: int
    pp: int
    microbatches: int
    batch: int
    seq: int
    schedule: str = "1f1b"
    chunks: int = 1
    optimizer: str = "adamw"
    clip: float = 1.0
    zero: int = 0
    zero_first: bool = False
    sp: bool = False
    cp: int = 1
    context: str = "gather"
    cp_layout: str = "contiguous"
    ep: int = 1
    dispatch: bool = False
    capacity: int = 0
    tied: bool = False
    recompute: bool = False
    sized: bool = False
    aux_loss: float = 0.0
    aux_over: str = "row"
    layouts: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    beside: tuple[Mapping[str, int], ...] = ()

    @property
    def pipelines(self) -> tuple[Degrees, ...]:
        """The degrees of every pipeline, of those that are beside each other; of one, if there is one."""
        return tuple(replace(self, **own, beside=()) for own in ({}, *self.beside))

    def of(self, kind: str) -> Degrees:
        """The degrees of the pieces of a kind, which have no layouts."""
        own = self.layouts.get(kind, {})
        sent = own["ep"] > 1 or self.capacity > 0 if "ep" in own else self.dispatch
        return replace(self, **own, dispatch=sent, layouts={})

    @property
    def least(self) -> int:
        """The fewest rows of an iteration of which the ranks of all pieces have equal numbers in every microbatch."""
        degrees = [*self.pipelines, *map(self.of, self.layouts)]
        return self.microbatches * lcm(*(own.dp * own.ep for own in degrees))

    @property
    def inner(self) -> dict[str, int]:
        """The axes of the ranks of a stage."""
        return {axis: size for axis, size in self.mesh.items() if axis != "pp"}

    @property
    def rows(self) -> int:
        """Rows of one microbatch on one rank, of the last one at most."""
        return -(-self.batch // (self.dp * self.ep * self.microbatches))

    @property
    def last(self) -> int:
        """Rows of the last microbatch on one rank."""
        return self.batch // (self.dp * self.ep) - self.rows * (self.microbatches - 1)

    @property
    def mesh(self) -> dict[str, int]:
        """The axes of the ranks; those of experts and of the context only where there are several."""
        more = {axis: size for axis, size in (("ep", self.ep), ("cp", self.cp)) if size > 1}
        return {"pp": self.pp, "dp": self.dp, **more, "tp": self.tp}

    @property
    def over(self) -> tuple[str, ...]:
        """The axes whose ranks have different tokens."""
        return tuple(axis for axis in ("dp", "ep", "cp") if axis in self.mesh)

    @property
    def zigzag(self) -> bool:
        """True if a rank of cp has two chunks of the sequence."""
        return self.cp > 1 and self.cp_layout == "zigzag"

    @property
    def parts(self) -> int:
        """The number of parts that a row is cut into outside of the linear layers."""
        return self.cp * (self.tp if self.sp else 1)


@dataclass(frozen=True)
class Weight:
    """One parameter: its ``sizes``, the axes that ``cut`` it with their dimensions, those over which what passes leave
    as its gradient is a sum, and the dimension that ZeRO cuts over dp (``None``: none)."""

    name: str
    sizes: tuple[int, ...]
    cut: Mapping[str, int]
    sums: tuple[str, ...]
    shard: int | None
    degrees: Degrees

    @property
    def kept(self) -> bool:
        """True if a rank of dp keeps only a part of its optimizer state."""
        return self.shard is not None and self.degrees.zero > 0

    def _placed(self, shard: bool) -> dict[str, str]:
        own = {axis: f"Shard({dim})" for axis, dim in self.cut.items()}
        return {**own, **({"dp": f"Shard({self.shard}{self._parts_of_parts})"} if shard else {})}

    @property
    def _parts_of_parts(self) -> str:
        """The order of the blocks of what is cut over dp after tp, whose axis comes later; empty if nothing else cuts
        that dimension."""
        sizes = [self.degrees.mesh[axis] for axis, dim in self.cut.items() if dim == self.shard]
        dp, many = self.degrees.mesh["dp"], prod(sizes)
        blocks = [t * dp + d for d in range(dp) for t in range(many)]
        return f", {blocks}" if many > 1 and dp > 1 else ""

    @property
    def parameter(self) -> dict[str, str]:
        """The placement of the parameter as passes take it."""
        return self._placed(self.kept and self.degrees.zero == 3)

    @property
    def summed(self) -> dict[str, str]:
        """The placement of its gradient where the ranks of dp have all of it alike."""
        return self._placed(shard=False)

    @property
    def state(self) -> dict[str, str]:
        """The placement of its optimizer state, and of the gradient that the optimizer takes."""
        return self._placed(self.kept)

    @property
    def early(self) -> bool:
        """True if its gradient is added up over dp in every microbatch."""
        return self.kept and self.degrees.zero >= 2

    @property
    def gradient(self) -> dict[str, str]:
        """The placement of its gradient after the passes, but for the microbatches."""
        return {**dict.fromkeys(self.sums, 'Partial("sum")'), **self._placed(self.early)}

    @property
    def squares(self) -> tuple[str, ...]:
        """The axes over which the sum of the squares of its gradient is a sum."""
        return tuple(axis for axis in self.degrees.mesh if axis in self.state)

    def local(self, placed: Mapping[str, str]) -> tuple[int, ...]:
        """The sizes of what a rank has, by placement."""
        sizes = list(self.sizes)
        for axis, placement in placed.items():
            if placement.startswith("Shard"):
                sizes[int(placement[6:-1].split(",")[0])] //= self.degrees.mesh[axis]
        return tuple(sizes)


def weights_of(shapes: Sizes, degrees: Degrees) -> dict[str, Weight]:
    """The parameters of a piece. Raises :class:`UserError` for one that cannot be cut."""
    return {name: _weight(name, sizes, degrees) for name, sizes in shapes.items()}


def _weight(name: str, sizes: tuple[int, ...], degrees: Degrees) -> Weight:
    expert = name in _EXPERTS
    cut = {"ep" if degrees.dispatch else "tp": 0} if expert else {"tp": _CUT[name]} if name in _CUT else {}
    cut = {axis: dim for axis, dim in cut.items() if axis in degrees.mesh}
    local = degrees.sp and (name in _LOCAL or (expert and degrees.dispatch))
    sums = (*(axis for axis in degrees.over if axis not in cut), *(("tp",) if local else ()))
    for axis, dim in cut.items():
        if sizes[dim] % degrees.mesh[axis]:
            many = degrees.mesh[axis]
            raise UserError(
                "plan-sizes", place=f"plan new --{axis}", found=f"--{axis} {many} for {name} of {list(sizes)}",
                needed=f"a multiple of {many} along dimension {dim}",
                hint=f"choose a --{axis} that divides {sizes[dim]}",
            )  # fmt: skip
    shard = next((d for d, size in enumerate(sizes) if d not in cut.values() and size % degrees.dp == 0), None)
    if degrees.zero_first and sizes[0] % (degrees.dp * prod(degrees.mesh[axis] for axis in cut if cut[axis] == 0)) == 0:
        shard = 0
    if degrees.zero and shard is None and name not in FROZEN:
        already = "".join(f", cut along {dim} by {axis}" for axis, dim in cut.items())
        raise UserError(
            "plan-sizes", place="plan new --zero", found=f"{name} of {list(sizes)}{already}",
            needed=f"a dimension that nothing else cuts and that is a multiple of dp, {degrees.dp}",
            hint="choose another --dp, or --zero 0",
        )  # fmt: skip
    return Weight(name, sizes, cut, sums, None if name in FROZEN else shard, degrees)


def tensors(weights: Mapping[str, Weight], placed: str, prefix: str = "") -> dict[str, torch.Tensor]:
    """Tensors without data of what a rank has of weights: as ``parameter``, ``gradient``, ``summed``, ``state``, or
    ``whole``."""
    return {
        f"{prefix}{name}": empty(*(w.sizes if placed == "whole" else w.local(getattr(w, placed))))
        for name, w in weights.items()
    }


def empty(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor without data."""
    return torch.empty(sizes, dtype=dtype, device="meta")


def said(placed: Mapping[str, str]) -> Any:
    """A placement as a plan's table has it."""
    return dict(placed) or "Replicate()"


# ---------------------------------------------------------------------------------------------- the model
def layers_of(shape: Shape | ExpertShape) -> tuple[tuple[str, int], ...]:
    """The kinds of layers, and how many there are of each, one after the other."""
    if isinstance(shape, Shape):
        return (("layer", shape.layers),)
    found = (("dense", shape.dense), ("moe", shape.layers - shape.dense))
    return tuple((name, count) for name, count in found if count > 0)


def pieces_of(shape: Shape | ExpertShape) -> dict[str, Sizes]:
    """The shapes of the parameters of every kind of piece."""
    ends = {"table": (shape.vocab, shape.hidden)}, {"norm": (shape.hidden,), "output": (shape.vocab, shape.hidden)}
    if isinstance(shape, Shape):
        return {"embedding": ends[0], "layer": shape.layer(), "head": ends[1]}
    own = {"dense": shape.dense_layer, "moe": shape.expert_layer}
    return {"embedding": ends[0], **{name: own[name]() for name, _ in layers_of(shape)}, "head": ends[1]}
