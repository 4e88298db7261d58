"""A node of an ONNX model as the rows of operators see it: operands, attributes, and what becomes of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tantamount.capture.fields import Place, shown
from tantamount.capture.onnx.model import Attribute
from tantamount.ir.types import DType, TensorType
from tantamount.semantics.reference import Array

__all__ = ["ROWS", "Given", "Known", "Result", "Row", "cast_to", "row"]


@dataclass(frozen=True)
class Known:
    """A value: the node that has it, its type, and its numbers where they are known while reading."""

    node: str
    type: TensorType
    known: Array | None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def rank(self) -> int:
        return len(self.type.shape)

    @property
    def dtype(self) -> DType:
        return self.type.dtype


Result = list[Known]


class Given(Protocol):
    """One node, as its row sees it."""

    operands: tuple[Known | None, ...]

    @property
    def place(self) -> Place: ...
    @property
    def opset(self) -> int: ...
    @property
    def results(self) -> int: ...
    @abstractmethod
    def attribute(self, name: str) -> Attribute | None: ...
    @abstractmethod
    def emit(self, target: str, *args: object, **kwargs: object) -> Known: ...
    @abstractmethod
    def several(self, target: str, *args: object, **kwargs: object) -> Result: ...
    @abstractmethod
    def recorded(self, values: Array, dtype: DType) -> Known: ...

    # -- operands
    def x(self, k: int) -> Known:
        """The k-th operand."""
        found = self.optional(k)
        if found is None:
            raise self.place.wrong(f"no operand {k}", "an operand", code="onnx-operands")
        return found

    def optional(self, k: int) -> Known | None:
        """The k-th operand, if there is one."""
        return self.operands[k] if k < len(self.operands) else None

    def most(self, count: int) -> None:
        """Raise :class:`UserError` for more operands."""
        if len(self.operands) > count:
            raise self.place.wrong(f"{len(self.operands)} operands", f"at most {count}", code="onnx-operands")

    def numbers(self, k: int) -> list[int]:
        """The whole numbers of an operand that must be known."""
        found = self.x(k)
        if found.known is None or not found.dtype.is_integral:
            raise self.place.wrong(
                f"the operand {k} ({found.node}), which is computed", "whole numbers that are known while reading",
                code="onnx-operands", hint="export with fixed sizes",
            )  # fmt: skip
        return [int(value) for value in found.known.reshape(-1).tolist()]

    def number(self, k: int) -> float | int | bool | None:
        """The one number that an operand is, if it is known."""
        found = self.optional(k)
        if found is None or found.known is None or found.known.size != 1:
            return None
        return found.known.reshape(-1).tolist()[0]

    # -- attributes
    def integer(self, name: str, default: int) -> int:
        """An attribute that is a whole number."""
        found = self.attribute(name)
        if found is None:
            return default
        if not isinstance(found, int):
            raise self._attribute(name, found, "a whole number")
        return found

    def real(self, name: str, default: float) -> float:
        """An attribute that is a number (of 32 bits)."""
        found = self.attribute(name)
        if found is None:
            return float(np.float32(default))
        if not isinstance(found, float):
            raise self._attribute(name, found, "a number")
        return found

    def text(self, name: str, default: str) -> str:
        """An attribute that is a text."""
        found = self.attribute(name)
        if found is None:
            return default
        if not isinstance(found, str):
            raise self._attribute(name, found, "a text")
        return found

    def integers(self, name: str) -> list[int] | None:
        """An attribute that is a list of whole numbers."""
        found = self.attribute(name)
        if found is None:
            return None
        if not isinstance(found, tuple) or not all(isinstance(one, int) for one in found):
            raise self._attribute(name, found, "whole numbers")
        return [int(one) for one in found]

    def only(self, name: str, *allowed: object) -> None:
        """Raise :class:`UserError` unless the attribute is missing or has a value that is supported."""
        found = self.attribute(name)
        if found is not None and found not in allowed:
            raise self._attribute(name, found, " or ".join(map(str, allowed)))

    def _attribute(self, name: str, found: object, needed: str) -> Exception:
        return self.place.at(f"attribute {name}").wrong(shown(found), needed, code="onnx-attribute")

    def axis(self, value: int, rank: int) -> int:
        """An axis counted from 0."""
        if not -rank <= value < rank:
            raise self.place.wrong(f"the axis {value}", f"one of {rank}", code="onnx-operands")
        return value % rank

    def alike(self) -> list[Known]:
        """The operands, which must have one element type."""
        found = [self.x(k) for k in range(len(self.operands))]
        if not found or any(one.dtype is not found[0].dtype for one in found):
            types = ", ".join(str(one.type) for one in found) or "none"
            raise self.place.wrong(f"operands {types}", "operands of one element type", code="onnx-operands")
        return found


Row = Callable[[Given], Result]
ROWS: dict[str, Row] = {}


def row(*names: str) -> Callable[[Row], Row]:
    """Register the row of some operators."""

    def register(function: Row) -> Row:
        for name in names:
            ROWS[name] = function
        return function

    return register


def cast_to(step: Given, x: Known, dtype: DType) -> Known:
    """The operand in an element type."""
    return x if x.dtype is dtype else step.emit("aten._to_copy.default", x, dtype=dtype)
