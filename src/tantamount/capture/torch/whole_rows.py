"""Stand-ins for rows that data select, while a program is computed on whole rows: :mod:`selected` has the rules."""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from tantamount.errors import UserError

__all__ = ["RULES", "Given", "Mask", "Rows", "Size", "Whole", "expression", "handles", "refused", "special"]


def unknown(value: Any) -> bool:
    sizes = [
        size for leaf in pytree.tree_leaves(value) for size in (leaf.shape if isinstance(leaf, Tensor) else (leaf,))
    ]
    return any(isinstance(size, torch.SymInt | torch.SymFloat | torch.SymBool) for size in sizes)


@dataclass(frozen=True, slots=True)
class Mask:
    """A selection of rows: a boolean tensor, in one dimension, and the sizes that it has in the program."""

    flat: Tensor  # [rows]
    shape: tuple[int, ...]

    @property
    def rows(self) -> int:
        return self.flat.shape[0]

    def along(self, dim: int, rank: int) -> Tensor:
        """The mask as it stands beside a tensor of this rank whose rows are along ``dim``."""
        return self.flat.reshape([self.rows if k == dim else 1 for k in range(rank)])


@dataclass(frozen=True, slots=True)
class Rows:
    """A tensor of which the program has the selected rows along ``dim`` only: here it has all of them.

    ``coordinates`` are the dimensions of the mask whose positions these numbers are; ``None`` if they are something
    else."""

    data: Tensor
    dim: int
    mask: Mask
    coordinates: tuple[int, ...] | None = None

    def kept(self, other: Any = 0) -> Tensor:
        """The rows, with another number in place of those that are not selected."""
        filler = torch.full([], other, dtype=self.data.dtype) if other else torch.zeros([], dtype=self.data.dtype)
        return torch.where(self.mask.along(self.dim, self.data.dim()), self.data, filler)


@dataclass(frozen=True, slots=True)
class Size:
    """A size that depends on data: ``rows`` where it stands for a dimension, ``count`` as a number, if it is the
    number of selected rows times ``times``."""

    mask: Mask
    times: int = 1

    @property
    def count(self) -> Tensor:
        return self.mask.flat.sum() * self.times


Given = Any  # a value of the interpretation: a tensor, Rows, Size, or a plain argument
_Rule = Callable[["Whole", fx.Node, list[Given], dict[str, Given]], Any]
RULES: dict[Any, _Rule] = {}


def handles(*targets: Any) -> Callable[[_Rule], _Rule]:
    """Make a function the rule of these operators (``"pointwise"``: of all that have none and are tagged so)."""

    def register(rule: _Rule) -> _Rule:
        RULES.update(dict.fromkeys(targets, rule))
        return rule

    return register


class Whole(fx.Interpreter):
    """Runs a graph on whole rows."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self._masks: dict[Any, tuple[Any, Mask]] = {}  # by the symbol of the number of rows

    def run_node(self, n: fx.Node) -> Any:
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        leaves = pytree.tree_leaves((list(args), kwargs), is_leaf=special)
        if not unknown(n.meta.get("val")) and not any(special(leaf) for leaf in leaves):
            return super().run_node(n)
        with self._set_current_node(n):
            if n.op == "output":
                raise refused("an output")
            pointwise = torch.Tag.pointwise in getattr(n.target, "tags", ())
            rule = RULES.get(n.target, RULES.get("pointwise") if pointwise else None)
            if rule is None:
                raise refused(str(n.target))
            return rule(self, n, list(args), dict(kwargs))

    def mask_of(self, n: fx.Node, dim: int, truth: Tensor, source: Any) -> Mask:
        """The mask ``truth`` that selects the rows of a result along ``dim``; ``source`` is how it is computed."""
        symbol = expression(n.meta["val"].shape[dim])
        if symbol not in self._masks:
            mask = self.selects(source) or Mask(_truth(truth).reshape(-1), tuple(truth.shape))
            self._masks[symbol] = source, mask
        known, mask = self._masks[symbol]
        if known != source:
            raise refused(f"{n.target} by two masks of one number of rows")
        return mask

    def selects(self, source: Any) -> Mask | None:
        """The mask that is computed like this, if rows have been selected by it."""
        return next((mask for known, mask in self._masks.values() if known == source), None)

    def are_same(self, a: Any, b: Any) -> bool:
        """True if two symbols are the number of rows that one mask selects."""
        return a in self._masks and b in self._masks and self._masks[a][1] is self._masks[b][1]

    def dim_of(self, value: Tensor) -> int | None:
        """The dimension of a tensor of the program along which its rows were selected; ``None`` without one."""
        found = [k for k, size in enumerate(value.shape) if isinstance(size, torch.SymInt)]
        if not found:
            return None
        if len(found) > 1 or expression(value.shape[found[0]]) not in self._masks:
            raise refused(f"a tensor of sizes {list(value.shape)}")
        return found[0]

    def made(self, n: fx.Node, result: Any, mask: Mask) -> Any:
        """The result of an operator on whole rows as what the program has in its place."""

        def one(value: Any, own: Any) -> Any:
            dim = self.dim_of(own) if isinstance(own, Tensor) else None
            if dim is None:
                return value
            if self._masks[expression(own.shape[dim])][1] is not mask:
                raise refused(f"{n.target} of rows of two masks")
            return Rows(value, dim, mask)

        own = n.meta["val"]
        if isinstance(own, list | tuple):
            return type(own)(one(*pair) for pair in zip(result, own, strict=True))
        return one(result, own)


def special(value: Any) -> bool:
    """True if a value stands for selected rows, or for how many there are."""
    return isinstance(value, Rows | Size)


def expression(size: Any) -> Any:
    """The symbol of a size as it was made: two that must be equal keep their own."""
    return size.node._expr if isinstance(size, torch.SymInt) else size


def refused(what: str) -> UserError:
    """The error that names a use of selected rows that has no form on whole rows."""
    return UserError(
        "capture-selection", place="rows that data select", found=what,
        needed="operators on each of them by itself, sums over them, and writes to where they came from",
        hint="keep all rows and multiply by the mask, or torch.where(mask, x, 0)",
    )  # fmt: skip


def _truth(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype == torch.bool else tensor != 0
