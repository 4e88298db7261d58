"""Packed sequences (``nn.utils.rnn``) whose lengths are numbers, as slices and concatenations.

Packing reads how long the sequences are, and recurrent layers read how many of them are left at every step: numbers of
the program, which no tensor of a graph holds. Where they are known while a program is traced, rows are taken and put
back by them, and layers run cell by cell as PyTorch defines them (``torch._decomp``). Lengths that data decide are
refused by the operators themselves.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decompositions
from torch._subclasses.fake_tensor import FakeTensor

__all__ = ["PACKED"]

_functions: Any = torch._C._VariableFunctions  # pyright: ignore[reportAttributeAccessIssue]
_MARK = "_tantamount_numbers"  # of a tensor: the numbers that it held when it was written for the last time


def _marked(x: Tensor, numbers: list[int]) -> Tensor:
    setattr(x, _MARK, (x._version, numbers))
    return x


def _numbers(x: Any) -> list[int] | None:
    """The whole numbers that a vector holds, in every call of the program; ``None`` if they are not known."""
    if not isinstance(x, Tensor) or x.dtype is not torch.int64:
        return None
    if isinstance(x, FakeTensor):
        version, numbers = getattr(x, _MARK, (None, None))
        return numbers if version == x._version else None
    return x.tolist() if type(x) is Tensor and x.dim() == 1 and x.device.type == "cpu" else None


def _given(make: Callable[..., Any]) -> Callable[..., Any]:
    """``torch.tensor`` and ``torch.as_tensor``: what is made of a list of numbers holds these."""

    def run(*args: Any, **kwargs: Any) -> Any:
        found = make(*args, **kwargs)
        data = args[0] if args else None
        if not isinstance(data, (list, tuple)) or not isinstance(found, FakeTensor):
            return found
        return _marked(found, list(data)) if all(type(item) is int for item in data) else found

    return run


def _moved(*args: Any, **kwargs: Any) -> Any:
    """``lengths.to(...)``"""
    found = Tensor.to(*args, **kwargs)
    numbers = _numbers(args[0])
    if numbers is None or not isinstance(found, FakeTensor) or found.dtype is not torch.int64:
        return found
    return _marked(found, numbers)


def _element(x: Any, index: Any) -> Any:
    """``batch_sizes[0]``"""
    numbers = getattr(x, _MARK, None) and type(index) is int and _numbers(x)
    if not numbers or not -len(numbers) <= index < len(numbers) or not x.dim():
        return Tensor.__getitem__(x, index)
    return _marked(torch.tensor(numbers[index]), [numbers[index]])


def _sort(*args: Any, **kwargs: Any) -> Any:
    """Lengths that are sorted stay numbers."""
    numbers = _numbers(args[0]) if len(args) == 1 and set(kwargs) <= {"descending"} else None
    if numbers is None:
        return torch.sort(*args, **kwargs)
    order = sorted(range(len(numbers)), key=lambda k: numbers[k], reverse=kwargs.get("descending", False))
    values = [numbers[k] for k in order]
    return torch.return_types.sort((_marked(torch.tensor(values), values), _marked(torch.tensor(order), order)))


def _zeros(*sizes: Any, **kwargs: Any) -> Any:
    """Layers begin with a row of zeros for each of as many sequences as the first step has."""
    known = [_numbers(n) if getattr(n, _MARK, None) else None for n in sizes]
    return torch.zeros(*(numbers[0] if numbers else n for n, numbers in zip(sizes, known, strict=True)), **kwargs)


def _pack(padded: Tensor, lengths: Any, batch_first: bool = False) -> Any:
    numbers = _numbers(lengths)
    if not numbers or min(numbers) < 1 or numbers != sorted(numbers, reverse=True):
        return _functions._pack_padded_sequence(padded, lengths, batch_first)
    steps = padded.transpose(0, 1) if batch_first else padded
    if len(numbers) != steps.shape[1] or numbers[0] > steps.shape[0]:
        return _functions._pack_padded_sequence(padded, lengths, batch_first)
    left = [sum(number > t for number in numbers) for t in range(numbers[0])]
    return torch.cat([steps[t, :count] for t, count in enumerate(left)]), _marked(torch.tensor(left), left)


def _pad(data: Tensor, batch_sizes: Any, batch_first: bool, padding_value: float, total_length: int) -> Any:
    left = _numbers(batch_sizes)
    if not left or total_length < len(left):
        return _functions._pad_packed_sequence(data, batch_sizes, batch_first, padding_value, total_length)
    rows: list[Tensor] = []
    for part in torch.split(data, left):
        rest = part.new_full((left[0] - part.shape[0], *part.shape[1:]), padding_value)
        rows.append(torch.cat([part, rest]))
    rows += [data.new_full((left[0], *data.shape[1:]), padding_value) for _ in range(total_length - len(left))]
    lengths = [sum(count > k for count in left) for k in range(left[0])]
    return torch.stack(rows, 1 if batch_first else 0), _marked(torch.tensor(lengths), lengths)


def _layers(name: str, define: Callable[..., Any]) -> Callable[..., Any]:
    """A recurrent layer that runs on packed rows by its definition, and on others as it is."""
    known: Any = getattr(_functions, name)

    def run(*args: Any, **kwargs: Any) -> Any:
        left = _numbers(args[1]) if len(args) == 9 and isinstance(args[3], (list, tuple)) else None
        if left is None:
            return known(*args, **kwargs)
        return define(args[0], left, *args[2:], **kwargs)

    return run


_DEFINITIONS = {
    "lstm": decompositions.lstm_data_impl,
    "gru": decompositions.gru_impl_data,
    "rnn_tanh": decompositions.rnn_tanh_data,
    "rnn_relu": decompositions.rnn_relu_data,
}
# by what PyTorch tells modes of
PACKED: Mapping[Any, Callable[..., Any]] = {
    torch.tensor: _given(torch.tensor),
    torch.as_tensor: _given(torch.as_tensor),
    Tensor.to: _moved,
    Tensor.__getitem__: _element,
    _functions.sort: _sort,
    _functions.zeros: _zeros,
    _functions._pack_padded_sequence: _pack,
    _functions._pad_packed_sequence: _pad,
    **{getattr(_functions, name): _layers(name, define) for name, define in _DEFINITIONS.items()},
}
