"""Reading HLO text (``.hlo``, ``.hlo.gz``) into a graph.

The entry computation becomes the graph, with called computations and fusions put in place and tuples resolved. Its
``parameter(k)`` is the input ``parameterk``, the elements of its root are ``output0``, ``output1``, ... Every attribute
of an instruction becomes an argument of its node, is one of those that never change a value, or is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Union

from tantamount.capture.fields import Place, nearest, shown
from tantamount.capture.hlo_agreement import check_agreement
from tantamount.capture.hlo_counters import counted
from tantamount.capture.hlo_groups import group_of, pairs_of_ranks
from tantamount.capture.hlo_instructions import ROWS, check_header, refusal
from tantamount.capture.hlo_rows import HARMLESS
from tantamount.capture.hlo_text import Array, Computation, HloType, Instruction, Module, Tuple, parse_module
from tantamount.capture.hlo_values import integer, literal
from tantamount.ir.graph import Argument, Constant, Graph, Node, Output, Ref, Source, references
from tantamount.ir.validate import check_structure
from tantamount.limits import Limits

__all__ = ["parse_hlo"]


@dataclass(frozen=True, slots=True)
class _Tensor:
    """The value of an instruction: a node, and the type that was printed (its layout matters to ``bitcast``)."""

    node: str
    type: Array


@dataclass(frozen=True, slots=True)
class _Started:
    """An asynchronous operation that its ``-done`` will finish."""

    instruction: Instruction
    operands: tuple[_Value, ...]


@dataclass(frozen=True, slots=True)
class _Undefined:
    """NaN everywhere: what a ``select`` gives where its condition must not fail (jax.numpy.var, for one)."""

    type: Array


_Value = Union[_Tensor, tuple["_Value", ...], _Started, _Undefined, None]  # None: a token

# Instructions whose value is their first operand's: over the reals, nothing happens to it.
_SAME = frozenset({"copy", "optimization-barrier", "opt-barrier", "copy-start", "copy-done", "add-dependency"})
_CALLS = {"call": "to_apply", "fusion": "calls", "async-start": "calls"}
_STARTS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
_SOURCE = re.compile(r'source="([^"\n]*):(\d{1,9})"')
_SOURCE_FILE = re.compile(r'source_file="([^"\n]*)"')
_SOURCE_LINE = re.compile(r"source_line=(\d{1,9})(?!\d)")
_FRAME = re.compile(r"stack_frame_id=(\d{1,9})(?!\d)")
_OP_NAME = re.compile(r'op_name="((?:\\.|[^"\\\n])*)"')


def parse_hlo(text: str, path: str, limits: Limits) -> Graph:
    """The graph of the entry computation in HLO text, with its structure checked; ``path`` names it in messages.

    Raises :class:`UserError` with the line of what is wrong, or is not supported."""
    place = Place("graph", path, limits)
    module = parse_module(text, place)
    ranks = check_header(module, place)
    check_agreement(module, place)
    translator = _Translator(module, place, ranks)
    return translator.graph(path)


@dataclass
class _Translator:
    """One module becoming a graph."""

    module: Module
    place: Place
    ranks: tuple[str, int] | None  # what a rank is (partitions or replicas) and how many, if the module says so
    nodes: list[Node] = field(default_factory=list[Node])
    constants: dict[str, Constant] = field(default_factory=dict[str, Constant])
    groups: dict[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict[str, tuple[tuple[int, ...], ...]])
    names: set[str] = field(default_factory=set[str])
    numbers: dict[str, bool | int | float] = field(default_factory=dict[str, bool | int | float])  # of constants
    identities: set[str] = field(default_factory=set[str])
    steps: int = 0
    loops: int = 0  # around the instruction that is being read
    counters: set[str] = field(default_factory=set[str])  # nodes that say where loops are: most are not read again

    def graph(self, path: str) -> Graph:
        entry = self.module.entry
        root = self.computation(entry, self.inputs(entry), "", 0)
        outputs: list[Output] = []

        def flatten(value: _Value) -> None:
            self.step()
            if isinstance(value, tuple):
                for item in value:
                    flatten(item)
            elif isinstance(value, _Tensor):
                outputs.append(Output(f"output{len(outputs)}", value.node))
            elif value is not None:
                found = "NaN" if isinstance(value, _Undefined) else "an operation that is started and not done"
                raise self.at(entry.root).wrong(found, "tensors with values", code="hlo-root")

        flatten(root)
        graph = Graph(
            self.without_counters(outputs),
            tuple(outputs),
            self.constants,
            origin=f"HLO module {self.module.name}",
            path=path,
            groups=self.groups,
            ranks=None if self.ranks is None else self.ranks[1],
        )
        check_structure(graph)
        return graph

    def without_counters(self, outputs: Sequence[Output]) -> tuple[Node, ...]:
        read = {name for node in self.nodes for name in references(node)} | {output.node for output in outputs}
        return tuple(node for node in self.nodes if node.name not in self.counters or node.name in read)

    # -- places, names
    def at(self, instruction: Instruction) -> Place:
        return self.place.at(f"line {instruction.line}: %{instruction.name}")

    def fresh(self, wanted: str) -> str:
        """The name, with primes if another node has it."""
        while wanted in self.names:
            wanted += "'"
        self.names.add(wanted)
        return wanted

    def source(self, instruction: Instruction) -> Source | None:
        text = instruction.attributes.get("metadata")
        if text is None:
            return None
        named = _OP_NAME.search(text)
        code = "" if named is None else _printable(named[1])
        where = _SOURCE.search(text)
        if where is not None:
            return Source(_printable(where[1]), int(where[2]), "", code)
        frame = _FRAME.search(text)
        if frame is not None and int(frame[1]) in self.module.frames:
            file, line, function = self.module.frames[int(frame[1])]
            return Source(_printable(file), line, _printable(function), code)
        file_, line_ = _SOURCE_FILE.search(text), _SOURCE_LINE.search(text)
        if file_ is not None:
            return Source(_printable(file_[1]), int(line_[1]) if line_ else 0, "", code)
        return Source("", 0, "", code) if code else None

    def emit(
        self,
        name: str,
        target: str,
        args: Sequence[Argument],
        kwargs: Mapping[str, Argument],
        type_: Array,
        source: Source | None,
        op: str = "call",
    ) -> _Tensor:
        name = self.fresh(name)
        self.nodes.append(Node(name, op, target or name, tuple(args), dict(kwargs), type_.type, source))
        return _Tensor(name, type_)

    def step(self) -> None:
        """Count what is put in place: calls of calls, and tuples of tuples, may grow without bound."""
        self.steps += 1
        self.place.limits.check("nodes", self.steps, self.place.text, "instructions, called computations included")

    # -- computations
    def inputs(self, entry: Computation) -> list[_Value]:
        found: dict[int, Instruction] = {}
        for instruction in entry.instructions:
            if instruction.opcode == "parameter":
                number = integer(instruction.inside, self.at(instruction))
                if number in found or not 0 <= number < len(entry.instructions):
                    raise self.at(instruction).wrong(f"parameter({number})", "parameters 0, 1, ... once each")
                found[number] = instruction
        if sorted(found) != list(range(len(found))):
            raise self.place.at(f"line {entry.line}").wrong(
                f"parameters {sorted(found)}", "parameters 0, 1, ... without a gap"
            )
        values: list[_Value] = []
        for number, instruction in sorted(found.items()):
            type_ = self.array(instruction.type, instruction, "an input that is one tensor")
            name = f"parameter{number}"
            values.append(self.emit(name, name, (), {}, type_, self.source(instruction), "input"))
        return values

    def computation(self, computation: Computation, arguments: Sequence[_Value], prefix: str, depth: int) -> _Value:
        """The value of the root, given those of the parameters; nodes are named ``prefix`` + instruction."""
        self.place.limits.check("nesting", depth + 1, self.place.text, "computations called from one another")
        values: dict[str, _Value] = {}
        for instruction in computation.instructions:
            self.step()
            operands: list[_Value] = []
            for name in instruction.operands:
                if name not in values:
                    raise self.at(instruction).wrong(
                        f"the operand {shown(name)}", "an earlier instruction of the same computation",
                        code="unknown-node", hint=nearest(name, values),
                    )  # fmt: skip
                operands.append(values[name])
            values[instruction.name] = self.instruction(instruction, operands, arguments, prefix, depth)
        return values[computation.root.name]

    def called(self, instruction: Instruction, key: str) -> Computation:
        text = instruction.attributes.get(key, "").strip()
        name = text.removeprefix("%")
        if name not in self.module.computations:
            raise self.at(instruction).wrong(
                f"{key}={shown(text)}", "the name of a computation of the module", code="unknown-computation",
                hint=nearest(name, self.module.computations),
            )  # fmt: skip
        return self.module.computations[name]

    def array(self, type_: HloType, instruction: Instruction, needed: str = "one tensor") -> Array:
        if isinstance(type_, Array):
            return type_
        if isinstance(type_, Tuple):
            raise self.at(instruction).wrong(f"a tuple of {len(type_.parts)}", needed, code="hlo-type")
        raise self.at(instruction).wrong(
            f"the type {shown(type_.text)}", f"{needed} of a known element type", code="dtype",
            hint="known: pred, s8 to s64, u8 to u64, f16, bf16, f32, f64, f8e4m3fn, f8e5m2; complex numbers are not",
        )  # fmt: skip

    # -- instructions
    def instruction(
        self, instruction: Instruction, operands: list[_Value], arguments: Sequence[_Value], prefix: str, depth: int
    ) -> _Value:
        opcode = instruction.opcode
        if opcode == "parameter":
            number = integer(instruction.inside, self.at(instruction))
            self.consumed(instruction, {"parameter_replication"})
            if not 0 <= number < len(arguments):
                raise self.at(instruction).wrong(f"parameter({number})", f"one of {len(arguments)} arguments")
            return self.same_type(arguments[number], instruction)
        if opcode == "constant":
            return self.constant(instruction, prefix)
        if opcode == "tuple":
            self.consumed(instruction, set())
            return tuple(operands)
        if opcode == "get-tuple-element":
            return self.element(instruction, operands)
        if opcode == "after-all":
            self.consumed(instruction, set())
            return None
        if opcode in _SAME:
            self.consumed(instruction, {"cross_program_prefetch_index"})
            return self.printed(operands, instruction)
        if opcode in _CALLS:
            return self.printed([self.call(instruction, operands, prefix, depth)], instruction)
        if opcode == "while":
            return self.printed([self.loop(instruction, operands, prefix, depth)], instruction)
        if opcode == "conditional":
            return self.branches(instruction, operands, prefix, depth)
        if opcode in ("async-update", "async-done"):
            self.consumed(instruction, {"calls", "async_execution_thread"})
            return self.printed(operands, instruction)
        return self.operation(instruction, operands, prefix)

    def printed(self, operands: Sequence[_Value], instruction: Instruction) -> _Value:
        """The first operand; a tensor under the printed type, whose layout may be another (``copy``)."""
        if not operands:
            raise self.at(instruction).wrong("no operands", "an operand", code="hlo-operands")
        return self.same_type(operands[0], instruction) if isinstance(instruction.type, Array) else operands[0]

    def same_type(self, value: _Value, instruction: Instruction) -> _Value:
        """The value under the type, and layout, that an instruction states."""
        if isinstance(value, _Tensor):
            stated = self.array(instruction.type, instruction)
            if stated.type != value.type.type:
                raise self.at(instruction).wrong(
                    f"the type {stated.type}", f"{value.type.type}, that of the value", code="hlo-type"
                )
            return _Tensor(value.node, stated)
        return value

    def consumed(self, instruction: Instruction, known: set[str]) -> None:
        """Refuse attributes beyond ``known`` and those that never change a value."""
        for key, text in instruction.attributes.items():
            if key not in known and key not in HARMLESS:
                raise self.at(instruction).wrong(
                    f"the attribute {key}={shown(text)}", f"attributes that are known for {instruction.opcode}",
                    code="hlo-attribute",
                )  # fmt: skip

    def constant(self, instruction: Instruction, prefix: str) -> _Value:
        self.consumed(instruction, set())
        place = self.at(instruction)
        type_ = self.array(instruction.type, instruction)
        name, source = prefix + instruction.name, self.source(instruction)
        data = literal(instruction.inside, type_.type.shape, type_.type.dtype, place)
        if data is None:
            return self.emit(name, name, (), {}, type_, source, "constant")
        first = data[0] if data else 0
        if data and all(value != value for value in data):
            return _Undefined(type_)
        if any(value != value for value in data):
            raise place.wrong("not-a-number among numbers", "numbers: nothing can be proved of NaN", code="nan")
        if not isinstance(first, complex) and all(value == first for value in data):
            kwargs = {"shape": type_.type.shape, "dtype": type_.type.dtype}
            made = self.emit(name, "hlo.constant", (first,), kwargs, type_, source)
            self.numbers[made.node] = first
            if self.loops:
                self.counters.add(made.node)
            return made
        made = self.emit(name, "", (), {}, type_, source, "constant")
        self.constants[made.node] = Constant(type_.type, data)
        return made

    def element(self, instruction: Instruction, operands: list[_Value]) -> _Value:
        self.consumed(instruction, {"index"})
        place = self.at(instruction)
        index = integer(instruction.attributes.get("index", ""), place)
        whole = operands[0] if operands else None
        if isinstance(whole, _Started):  # (operands, results) of an asynchronous start: nothing may be taken out
            raise place.wrong("an element of an operation that is not done", "an element of its -done")
        if not isinstance(whole, tuple) or not 0 <= index < len(whole):
            count = f"a tuple of {len(whole)}" if isinstance(whole, tuple) else "something that is no tuple"
            raise place.wrong(f"element {index} of {count}", "an element of a tuple")
        return self.same_type(whole[index], instruction)

    def call(self, instruction: Instruction, operands: list[_Value], prefix: str, depth: int) -> _Value:
        key = _CALLS[instruction.opcode]
        known = {key, "kind", "output_to_operand_aliasing", "async_execution_thread", "is_composite"}
        self.consumed(instruction, known)
        called = self.called(instruction, key)
        return self.computation(called, operands, f"{prefix}{instruction.name}/", depth + 1)

    def loop(self, instruction: Instruction, operands: list[_Value], prefix: str, depth: int) -> _Value:
        """The body, put in place as often as the loop turns: as long as the condition is a constant that holds."""
        self.consumed(instruction, {"condition", "body"})
        condition, body = self.called(instruction, "condition"), self.called(instruction, "body")
        value = self.printed(operands, instruction)
        self.loops += 1
        turn = 0
        while self.turns(condition, value, f"{prefix}{instruction.name}.{turn}/while/", depth, instruction):
            value = self.computation(body, [value], f"{prefix}{instruction.name}.{turn}/", depth + 1)
            turn += 1
        self.loops -= 1
        return value

    def turns(self, condition: Computation, value: _Value, prefix: str, depth: int, instruction: Instruction) -> bool:
        """True if the loop goes on. What its condition computes is no part of the graph."""
        before = len(self.nodes)
        found = self.computation(condition, [value], prefix, depth + 1)
        holds = self.numbers.get(found.node) if isinstance(found, _Tensor) else None
        for node in self.nodes[before:]:
            self.constants.pop(node.name, None)
        del self.nodes[before:]
        if not isinstance(holds, bool):
            raise self.at(instruction).wrong(
                "a loop that turns as often as data say", "one that counts from a constant to a constant",
                code="hlo-loop", hint="jax.lax.while_loop cannot be compared; scan and fori_loop with fixed bounds can",
            )  # fmt: skip
        return holds

    def branches(self, instruction: Instruction, operands: list[_Value], prefix: str, depth: int) -> _Value:
        """The results of all branches, put in place, among which a number (of a pred: whether it holds) chooses."""
        place = self.at(instruction)
        self.consumed(instruction, {"branch_computations", "true_computation", "false_computation"})
        listed = instruction.attributes.get("branch_computations", "").strip().removeprefix("{").removesuffix("}")
        pair = [instruction.attributes.get(key, "").strip() for key in ("true_computation", "false_computation")]
        names = [name.strip().removeprefix("%") for name in (listed.split(",") if listed else pair)]
        index = operands[0] if operands else None
        if len(operands) != len(names) + 1 or not isinstance(index, _Tensor) or index.type.type.shape:
            raise place.wrong(f"{len(operands)} operands", f"a number, and one for each of {len(names)} branches")
        before, results = len(self.nodes), list[_Value]()
        for k, (name, operand) in enumerate(zip(names, operands[1:], strict=True)):
            if name not in self.module.computations:
                raise place.wrong(
                    f"the branch {shown(name)}", "the name of a computation of the module",
                    code="unknown-computation", hint=nearest(name, self.module.computations),
                )  # fmt: skip
            branch = self.module.computations[name]
            results.append(self.computation(branch, [operand], f"{prefix}{instruction.name}.{k}/", depth + 1))
        if any("group" in node.kwargs for node in self.nodes[before:]):
            raise place.wrong("a collective in a branch", "branches without any", code="hlo-opcode")
        return self.chosen(instruction, index, results, f"{prefix}{instruction.name}")

    def chosen(self, instruction: Instruction, index: _Tensor, results: Sequence[_Value], name: str) -> _Value:
        """One of the results of branches: a tensor, or tuples of such."""
        first = results[0]
        if isinstance(first, tuple) and all(isinstance(r, tuple) and len(r) == len(first) for r in results):
            parts = zip(*(r for r in results if isinstance(r, tuple)), strict=True)
            return tuple(self.chosen(instruction, index, part, f"{name}[{k}]") for k, part in enumerate(parts))
        tensors = [result for result in results if isinstance(result, _Tensor)]
        if len(tensors) != len(results) or any(one.type.type != tensors[0].type.type for one in tensors):
            raise self.at(instruction).wrong("branches with other results", "tensors of one type from every branch")
        args = Ref(index.node), tuple(Ref(one.node) for one in tensors)
        return self.emit(name, "hlo.choose", args, {}, tensors[0].type, self.source(instruction))

    def counter(self, instruction: Instruction, operands: Sequence[_Value], prefix: str) -> _Value:
        """The value of an instruction in a loop as a constant, if it is arithmetic with counters; else ``None``."""
        type_ = instruction.type
        if not self.loops or not isinstance(type_, Array) or type_.type.shape:
            return None
        numbers = [self.numbers.get(operand.node) if isinstance(operand, _Tensor) else None for operand in operands]
        found = counted(instruction.opcode, numbers, instruction.attributes, type_.type.dtype)
        if found is None:
            return None
        self.consumed(instruction, {"direction", "type"})
        kwargs: dict[str, Argument] = {"shape": (), "dtype": type_.type.dtype}
        made = self.emit(prefix + instruction.name, "hlo.constant", (found,), kwargs, type_, self.source(instruction))
        self.numbers[made.node] = found
        self.counters.add(made.node)
        return made

    def operation(self, instruction: Instruction, operands: list[_Value], prefix: str) -> _Value:
        """An instruction that is an operator, or several: one per operand of a combined collective."""
        place, opcode = self.at(instruction), instruction.opcode
        if opcode.removesuffix("-start") in _STARTS and opcode.endswith("-start"):
            return _Started(instruction, tuple(operands))
        if opcode.removesuffix("-done") in _STARTS and opcode.endswith("-done"):
            started = operands[0] if operands else None
            if not isinstance(started, _Started) or started.instruction.opcode.removesuffix("-start") != (
                opcode.removesuffix("-done")
            ):
                raise place.wrong(f"{opcode} of something else", f"the matching {opcode.removesuffix('-done')}-start")
            self.consumed(instruction, set())
            begun = started.instruction
            return self.named(
                Instruction(
                    instruction.name, instruction.type, opcode.removesuffix("-done"), begun.operands, "",
                    begun.attributes, begun.line, instruction.root,
                ),
                list(started.operands), prefix,
            )  # fmt: skip
        return self.named(instruction, operands, prefix)

    def named(self, instruction: Instruction, operands: list[_Value], prefix: str) -> _Value:
        row = ROWS.get(instruction.opcode)
        if row is None:
            raise refusal(instruction, self.at(instruction))
        if any(isinstance(operand, _Undefined) for operand in operands):
            return self.undefined(instruction, operands, prefix)
        known = self.counter(instruction, operands, prefix)
        if known is not None:
            return known
        tensors: list[_Tensor] = []
        for operand, name in zip(operands, instruction.operands, strict=True):
            if not isinstance(operand, _Tensor):
                raise self.at(instruction).wrong(
                    f"the operand {name}, which is no tensor", "tensors", code="hlo-operands"
                )
            tensors.append(operand)
        return row.translate(_Step(self, instruction, tensors, prefix), row)

    def undefined(self, instruction: Instruction, operands: list[_Value], prefix: str) -> _Value:
        """NaN moved, or chosen by a select: then the condition must hold, or fail, wherever the result is defined."""
        self.consumed(instruction, {"dimensions"})
        if instruction.opcode in ("broadcast", "reshape", "convert") and len(operands) == 1:
            return _Undefined(self.array(instruction.type, instruction))
        if instruction.opcode == "select" and len(operands) == 3:
            condition, on_true, on_false = operands
            chosen = on_false if isinstance(on_true, _Undefined) else on_true
            if isinstance(condition, _Tensor) and isinstance(chosen, _Tensor):
                kwargs = {"holds": chosen is on_true}
                args = Ref(condition.node), Ref(chosen.node)
                type_, source = self.array(instruction.type, instruction), self.source(instruction)
                return self.emit(prefix + instruction.name, "hlo.select-or-nan", args, kwargs, type_, source)
        raise self.at(instruction).wrong(
            "not-a-number as an operand", "NaN as one side of a select only: nothing can be proved of it", code="nan"
        )


@dataclass(frozen=True)
class _Step:
    """One instruction, with all that the row of an opcode may ask and do."""

    translator: _Translator
    instruction: Instruction
    tensors: Sequence[_Tensor]
    prefix: str

    @property
    def place(self) -> Place:
        return self.translator.at(self.instruction)

    @property
    def types(self) -> tuple[Array, ...]:
        return tuple(tensor.type for tensor in self.tensors)

    @property
    def operands(self) -> tuple[Ref, ...]:
        return tuple(Ref(tensor.node) for tensor in self.tensors)

    def number(self, operand: int) -> bool | int | float | None:
        """The value of an operand that is one constant, the same everywhere."""
        return self.translator.numbers.get(self.tensors[operand].node)

    def counts(self, operand: int) -> int | None:
        """The dimension along which an operand is 0, 1, ..., if it is written as that; else ``None``."""
        by_name = {node.name: node for node in self.translator.nodes}
        node = by_name[self.tensors[operand].node]
        if node.target == "hlo.broadcast":
            (inner, dims) = node.args[0], node.kwargs["dimensions"]
            of = by_name[inner.name] if isinstance(inner, Ref) else None
            if of is None or not isinstance(dims, tuple) or len(dims) != 1 or of.target != "hlo.iota":
                return None
            return dims[0] if isinstance(dims[0], int) else None
        found = node.kwargs.get("dimension") if node.target == "hlo.iota" else None
        return found if isinstance(found, int) else None

    def computation(self, key: str) -> Computation:
        return self.translator.called(self.instruction, key)

    def check_attributes(self, known: set[str]) -> None:
        self.translator.consumed(self.instruction, known)

    def array(self, type_: HloType) -> Array:
        return self.translator.array(type_, self.instruction)

    def emit(
        self, target: str, args: Sequence[Argument], kwargs: Mapping[str, Argument], type_: Array, suffix: str = ""
    ) -> _Tensor:
        translator = self.translator
        name = self.prefix + self.instruction.name + suffix
        return translator.emit(name, target, args, kwargs, type_, translator.source(self.instruction))

    def all_ranks(self) -> str:
        self.translator.groups["{}"] = ()
        return "{}"

    def identity(self, opcode: str) -> bool:
        """True if ``partition-id`` (``replica-id``) is the number of the rank; else it is 0."""
        translator = self.translator
        if translator.ranks is not None:
            return translator.ranks[0] == opcode.removesuffix("-id")
        translator.identities.add(opcode)
        if len(translator.identities) > 1:
            raise self.place.wrong(
                "both partition-id and replica-id in a module without num_partitions or replica_count",
                "a header that says which of the two is the number of the rank", code="hlo-ranks",
            )  # fmt: skip
        return True

    def group(self) -> str:
        """The name of the group that ``replica_groups`` and the channel's mode mean."""
        name, rows = group_of(self.instruction, self.translator.ranks, self.place)
        self.translator.groups[name] = rows
        return name

    def source_targets(self) -> tuple[tuple[int, ...], ...]:
        return pairs_of_ranks(self.instruction, self.translator.ranks, self.place)


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
