# ruff: noqa: E501 - tables of odd values
"""Input that is wrong in every way: odd calls of every operator, and corrupted files. Everything is a value, made from a
random number generator, so that a failure can be made again from its seed."""

from __future__ import annotations

import copy
import gzip
import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.graphs import graph, placeholder, ref, returns
from tantamount.ir.types import DType
from tantamount.ops.table import Operator, table
from tantamount.samples.operators.calls import Operand, Sample
from tantamount.samples.operators.table import SAMPLES

__all__ = ["Corrupted", "corrupted_bytes", "corrupted_hlo", "corrupted_json", "corrupted_toml", "odd_call"]

Json = Any

NUMBERS: tuple[Json, ...] = (
    0, 1, 2, 3, -1, -2, 7, 64, 65, 100, 1000, 10**6, 1 << 31, (1 << 31) - 1, -(1 << 31), 1 << 40, 1 << 62, (1 << 63) - 1,
    1 << 63, -(1 << 63), (1 << 64) - 1, -(1 << 64) + 1, 0.0, -0.0, 0.5, -0.5, 1.5, 1e-320, 5e-324, 1e300, 1.7e308, -1e300,
    1e18, {"float": "inf"}, {"float": "-inf"}, {"complex": [1, 2]}, {"complex": [0.5, {"float": "inf"}]}, True, False,
)  # fmt: skip
OTHERS: tuple[Json, ...] = (
    None, "", "sum", "mean", "none", "constant", "reflect", "floor", "trunc", "tanh", "x" * 300, "\u2028", [], [[]], [None],
    [0], [-1], [0, 0], [0, 1, 2], [1 << 40] * 3, [1 << 62, 1 << 62], [-1, -1], [2] * 70, [1] * 65, [0.5], [True], ["x"],
    list(range(300)), [[0, 1], [1, 0]], [[[0]]], {"dtype": "float16"}, {"dtype": "bool"}, {"dtype": "int8"},
    {"dtype": "uint64"}, {"dtype": "complex64"}, {"dtype": "float8_e5m2"}, {"device": "cpu"}, {"torch": "strided"},
    {"torch": "channels_last"}, {"node": "p0"}, {"node": "p1"}, [{"node": "p0"}], [{"node": "p0"}] * 3, [{"node": "p0"}, None],
    [{"float": "inf"}], [{"float": "-inf"}, 2],
)  # fmt: skip
SHAPES = (
    [], [0], [1], [0, 3], [3, 0, 2], [1 << 31], [1 << 40, 1 << 40], [(1 << 63) - 1], [1] * 64, [2] * 20, [2, 2, 2, 2, 2, 2],
    [5], [2, 3], [4, 4], [1, 1], [1 << 20, 3], [7, 1, 7],
)  # fmt: skip
DTYPES = tuple(dtype.label for dtype in DType)
GROUPS = ("tp", "", "0", "world", "x y")


# ---------------------------------------------------------------------------------------------- odd calls of operators
def odd_call(rng: random.Random) -> Json:
    """A graph with one call of an operator, whose arguments are odd: a sample's with a few of them changed, or ones made
    up from the operator's signature."""
    rows = table()
    if rng.random() < 0.75:
        sample = rng.choice(SAMPLES)
        target, args, kwargs, inputs = _document(sample)
    else:
        target = rng.choice(_targets(rows))
        args, kwargs, inputs = _made_up(rows[target], rng)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        _change(args, kwargs, inputs, rng)
    nodes = [placeholder(name, *type_) for name, type_ in inputs.items()]
    call = {"name": "y", "op": "call_function", "target": target, "args": args, "kwargs": kwargs}
    items = [
        {"name": f"y{k}", "op": "call_function", "target": "getitem", "args": [ref("y"), k]}
        for k in range(rng.choice((0, 0, 0, 1, 2, 3)))
    ]
    results = [ref(item["name"]) for item in items] or [ref("y")]
    return graph(*nodes, call | {"shape": None, "dtype": None}, *items, returns(*results))


def _targets(rows: Mapping[str, Operator]) -> list[str]:
    return sorted(rows)


def _document(sample: Sample) -> tuple[str, list[Json], dict[str, Json], dict[str, tuple[list[int], str]]]:
    inputs: dict[str, tuple[list[int], str]] = {}

    def encode(item: Any) -> Json:
        if isinstance(item, Operand):
            name = f"p{len(inputs)}"
            inputs[name] = (list(item.shape), item.dtype.label)
            return ref(name)
        if isinstance(item, tuple):
            return [encode(entry) for entry in item]
        if isinstance(item, DType):
            return {"dtype": item.label}
        if isinstance(item, float) and item in (float("inf"), float("-inf")):
            return {"float": str(item)}
        if isinstance(item, complex):
            return {"complex": [item.real, item.imag]}
        return item if isinstance(item, (bool, int, float, str, type(None))) else str(item)

    args = [encode(item) for item in sample.args]
    return sample.target, args, {key: encode(item) for key, item in sample.kwargs.items()}, inputs


def _made_up(row: Operator, rng: random.Random) -> tuple[list[Json], dict[str, Json], dict[str, tuple[list[int], str]]]:
    inputs: dict[str, tuple[list[int], str]] = {}

    def tensor() -> Json:
        name = f"p{len(inputs)}"
        usual = [[2, 3], [3], [], [2, 3, 4], [4, 4], [2, 3, 4, 4], [1, 2, 3, 4, 4], [0, 3]]
        inputs[name] = (rng.choice(usual), rng.choice(("float32", "float32", "int64", "bool", rng.choice(DTYPES))))
        return ref(name)

    def argument(kind: str) -> Json:
        if kind.endswith("?") and rng.random() < 0.4:
            return None
        if rng.random() < 0.1:
            return copy.deepcopy(rng.choice((*NUMBERS, *OTHERS)))
        match kind.rstrip("?"):
            case "Tensor" | "Any":
                return tensor()
            case "Operand":
                return tensor() if rng.random() < 0.7 else copy.deepcopy(rng.choice(NUMBERS))
            case "Tensors":
                return [tensor() for _ in range(rng.choice((0, 1, 2, 3)))]
            case "Scalar" | "float":
                return copy.deepcopy(rng.choice(NUMBERS))
            case "int" | "Peer":
                return rng.choice((0, 1, -1, 2, 3, 1 << 40, (1 << 63) - 1, -(1 << 63), 100))
            case "Integers" | "Peers":
                return [rng.choice((0, 1, -1, 2, 3, 5, 1 << 40)) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4, 70)))]
            case "Scalars":
                return [copy.deepcopy(rng.choice(NUMBERS)) for _ in range(rng.choice((0, 1, 2, 3)))]
            case "bool":
                return rng.random() < 0.5
            case "Booleans":
                return [rng.random() < 0.5 for _ in range(rng.choice((0, 1, 2, 3)))]
            case "str" | "Strings" | "Group":
                word = rng.choice(("sum", "mean", "none", "constant", "avg", "tp", "", "EQ", "0_1"))
                return [word] if kind.startswith("Strings") else word
            case "DType":
                return {"dtype": rng.choice(DTYPES)}
            case _:
                return None

    args: list[Json] = []
    kwargs: dict[str, Json] = {}
    for name, parameter in row.parameters.items():
        if not parameter.required and rng.random() < 0.4:
            continue
        value = argument(parameter.kind)
        if parameter.required and len(args) == len(args) + len(kwargs):
            args.append(value)
        else:
            kwargs[name] = value
    return args, kwargs, inputs


def _change(
    args: list[Json], kwargs: dict[str, Json], inputs: dict[str, tuple[list[int], str]], rng: random.Random
) -> None:
    """One change, in place."""
    odd = copy.deepcopy(rng.choice(NUMBERS if rng.random() < 0.5 else OTHERS))
    match rng.randrange(14):
        case 0 | 1 | 2 | 3 if args:
            at = rng.randrange(len(args))
            args[at] = _of_its_kind(args[at], odd, rng)
        case 4 | 5 if kwargs:
            key = rng.choice(sorted(kwargs))
            kwargs[key] = _of_its_kind(kwargs[key], odd, rng)
        case 6 | 12 | 13 if inputs:
            name = rng.choice(sorted(inputs))
            inputs[name] = (list(rng.choice(SHAPES)), inputs[name][1])
        case 7 if inputs:
            name = rng.choice(sorted(inputs))
            inputs[name] = (inputs[name][0], rng.choice(DTYPES))
        case 8:
            args.append(odd)
        case 9 if args:
            del args[rng.randrange(len(args))]
        case 10 if any(isinstance(arg, list) and arg for arg in args):
            entry = rng.choice([arg for arg in args if isinstance(arg, list) and arg])
            entry[rng.randrange(len(entry))] = odd
        case _:
            kwargs[rng.choice(("dim", "dtype", "keepdim", "alpha", "out", "self", "b", "input", "x" * 200))] = odd


def _of_its_kind(value: Json, odd: Json, rng: random.Random) -> Json:
    """Mostly an odd value of the same kind, which gets further than others: an integer, a number, a list of them."""
    if rng.random() < 0.2:
        return odd
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice([number for number in NUMBERS if type(number) is int])
    if isinstance(value, float):
        return copy.deepcopy(rng.choice(NUMBERS))
    if isinstance(value, list) and all(type(item) is int for item in value):
        numbers = [0, 1, 2, 3, -1, -2, 5, 64, 1 << 31, 1 << 40, (1 << 63) - 1]
        return [rng.choice(numbers) for _ in range(rng.choice((0, 1, len(value), len(value), len(value) + 1, 70)))]
    return odd


# ---------------------------------------------------------------------------------------------- corrupted files
@dataclass(frozen=True)
class Corrupted:
    """Files by name, one of which is corrupted, and what was done to it."""

    files: Mapping[str, bytes]
    how: str


def corrupted_json(document: Json, rng: random.Random) -> Json:
    """A JSON value with a few places changed: other types, other numbers and names, keys and items gone or doubled."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        document = _with_change(document, rng)
    return document


def _with_change(value: Json, rng: random.Random) -> Json:
    """Walks down to a random place and changes it."""
    holder: Any = None
    key: Any = None
    top = value
    while isinstance(value, (dict, list)) and value and rng.random() < 0.93:
        holder, key = value, rng.choice(sorted(value)) if isinstance(value, dict) else rng.randrange(len(value))
        value = value[key]
    new: Json = copy.deepcopy(rng.choice((*NUMBERS, *OTHERS)))
    kind = rng.randrange(8)
    if kind == 0 and isinstance(holder, dict):
        holder[rng.choice(("name", "op", "x", "", "shape", "\ud800", "a" * 5000))] = new
        return top
    if kind == 1 and holder is not None:
        del holder[key]
        return top
    if kind == 2 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(value))
        return top
    if kind == 3 and isinstance(value, bool):
        new = not value
    elif kind == 3 and isinstance(value, int):
        new = rng.choice((value + 1, value - 1, -value, value * 1000, value << 40, -1))
    elif kind == 4 and isinstance(value, str):
        new = rng.choice(
            (value[:-1], value + "x", value.upper(), value * 3000, "", "\x1b[31m" + value, value.replace("a", "e"))
        )
    elif kind == 5:
        for _ in range(rng.choice((1, 60, 400))):
            value = [value] if rng.random() < 0.5 else {"x": value}
        new = value
    if holder is None:
        return new
    holder[key] = new
    return top


def corrupted_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes changed, cut, doubled, or put elsewhere."""
    held = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 50))):
        if not held:
            break
        at = rng.randrange(len(held))
        match rng.randrange(6):
            case 0:
                held[at] ^= 1 << rng.randrange(8)
            case 1:
                held[at] = rng.randrange(256)
            case 2:
                del held[at : at + rng.choice((1, 3, 100))]
            case 3:
                held[at:at] = rng.choice(
                    (b'"', b"{", b"[", b"]", b"}", b",", b"\x00", b"9" * 30, b"\xff\xfe", b"-", b"e", b".")
                )
            case 4:
                held[at:at] = held[at : at + rng.choice((1, 10, 300))] * rng.choice((1, 2, 40))
            case _:
                del held[at:]
    return bytes(held)


_TOKEN = re.compile(r'"[^"\n]*"|[\w.%\-]+|\s+|.', re.DOTALL)
_ODD_TOKENS = (
    "0", "-1", "99999999999999999999", "1e400", "nan", "inf", '""', '"x"', "[]", "{}", "{a=1}", "[[[[[[]]]]]]", "true", "'", '"""',
    "=", ".", "a.b.c", "#", "1979-05-27", "0x" + "f" * 5000, "9" * 5000, "é", "\u2028", "\x00", "Shard(9)", "Replicate()",
    "[" * 200, "(" * 200, "a." * 200 + "a", "-" * 300,
)  # fmt: skip


def corrupted_toml(text: str, rng: random.Random) -> str:
    """Text with tokens exchanged, changed, gone or doubled."""
    return _tokens_changed(text, rng, _ODD_TOKENS)


_ODD_HLO = (
    "f32[]", "f32[2,3]{1,0}", "f32[2,3]{0,1}", "f32[99999999999]", "pred[]", "s64[0]", "token[]", "(f32[], f32[])", "c64[2]", "%x", "ROOT",
    "ENTRY", "{", "}", "(", ")", "->", "dimensions={0}", "dimensions={0,0}", "dimensions={-1}", "replica_groups={}", "add(",
    "replica_groups={{0,0}}", "to_apply=%x", "calls=%x", "{1,0}", "{0}", "{3,2}", "parameter(0)", "parameter(9)", "constant(nan)",
    "constant({1,2})", "index=7", "slice={[0:9:0]}", "padding=1_1x0_-3", "999999999999999999999", "-1", "0", "1", "/*", "*/", "\"",
    "while(", "condition=%x, body=%x", "f32[1,1,1,1,1,1]{5,4,3,2,1,0:T(8,128)}", "dynamic_slice_sizes={9,9}",
)  # fmt: skip


def corrupted_hlo(text: str, rng: random.Random) -> str:
    """HLO text with tokens changed, and with lines gone, doubled or put elsewhere."""
    if rng.random() < 0.4:
        lines = text.split("\n")
        for _ in range(rng.choice((1, 1, 2))):
            a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
            match rng.randrange(4):
                case 0:
                    del lines[a]
                case 1:
                    lines.insert(b, lines[a])
                case 2:
                    lines[a], lines[b] = lines[b], lines[a]
                case _:
                    lines[a] = _tokens_changed(lines[a], rng, _ODD_HLO)
        return "\n".join(lines)
    return _tokens_changed(text, rng, _ODD_HLO)


def _tokens_changed(text: str, rng: random.Random, odd: tuple[str, ...]) -> str:
    tokens = _TOKEN.findall(text)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if not tokens:
            break
        at = rng.randrange(len(tokens))
        match rng.randrange(5):
            case 0:
                tokens[at] = rng.choice(odd)
            case 1:
                tokens.insert(at, rng.choice(odd))
            case 2:
                del tokens[at]
            case 3:
                tokens[at] = rng.choice(tokens)
            case _:
                number = re.fullmatch(r"-?\d{1,18}", tokens[at])
                tokens[at] = str(int(tokens[at]) + rng.choice((-1, 1, 10, 1 << 40))) if number else tokens[at] * 2
    return "".join(tokens)


def packed(value: Json) -> bytes:
    return json.dumps(value).encode()


def zipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def in_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).write_bytes(data)


Maker = Callable[[random.Random], Json]
