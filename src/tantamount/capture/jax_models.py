"""A model that is a function of JAX and a tree of parameters, for :func:`tantamount.compare`."""

# pyright: basic
from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tantamount.capture.jax import capture_jax, leaves_of, zeros_like
from tantamount.capture.programs import Program
from tantamount.capture.torch.problems import loader_problem
from tantamount.errors import UserError

__all__ = ["JaxModel"]


@dataclass(frozen=True)
class JaxModel:
    """``function(params, *inputs)``, with arrays (or ``jax.ShapeDtypeStruct``) for ``params``, a dict of such dicts.

    A loader for it takes a tree of that form and the tensors of a checkpoint as NumPy arrays by name, and returns the
    tree that is filled: ``load(params, tensors)``. Parameters are named by their paths: ``params.mlp.up``."""

    function: Callable[..., Any]
    params: Any

    def captured_program(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Program:
        """The captured program, of which the parameters are inputs."""
        if kwargs:
            raise UserError(
                "compare-programs", place="compare", found=f"keywords {', '.join(kwargs)} for a function of JAX",
                needed="a tuple of arguments", hint="inputs=[{...}, (x,)] has those of each program",
            )  # fmt: skip
        return capture_jax(self.function, (self.params, *(_array(x) for x in args)))

    def state_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the parameters by their names."""
        return {name: tuple(leaf.shape) for name, leaf in self._leaves(self.params)}

    def loader(self, load: Callable[[Any, Mapping[str, Any]], Any] | None, side: str) -> Callable[..., dict[str, Any]]:
        """A function from the tensors of a checkpoint to the parameters by their names, in float64."""

        def run(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
            if load is None:
                return {name: checkpoint.get(name, np.zeros(leaf.shape)) for name, leaf in self._leaves(self.params)}
            tensors = {name: np.array(values) for name, values in checkpoint.items()}
            held = zeros_like(self.params)
            try:
                made = load(held, tensors)
            except UserError:
                raise
            except Exception as problem:
                needed = "a function load(params, tensors) that returns a tree as params, filled from NumPy arrays"
                raise loader_problem(side, problem, needed) from problem
            found = {
                name: np.asarray(leaf, dtype=np.float64) for name, leaf in self._leaves(held if made is None else made)
            }
            wanted = self.state_shapes()
            if {name: leaf.shape for name, leaf in found.items()} != wanted:
                wrong = [n for n in {**found, **wanted} if n not in found or wanted.get(n) != found[n].shape]
                raise UserError(
                    "compare-loader", place=f"the loader of the {side} program",
                    found=f"another shape of {wrong[0]}, or none", needed="a tree with the shapes of params",
                )  # fmt: skip
            return found

        return run

    def _leaves(self, tree: Any) -> list[tuple[str, Any]]:
        first = next(iter(_parameters(self.function)), "params")
        return [(f"{first}.{path}" if path else first, leaf) for path, leaf in leaves_of(tree)]


def _parameters(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)  # as they are called: a bound method has no `self`


def _array(value: Any) -> Any:
    """An argument as JAX takes it; of a tensor of PyTorch, its shape and dtype."""
    if hasattr(value, "detach"):
        return value.detach().cpu().numpy()
    return value
