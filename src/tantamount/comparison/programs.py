"""Two programs as a job: which input is which, and which output. What nobody said is guessed, and marked as a guess."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, cast

from tantamount.capture.job import Unresolved, job_of
from tantamount.capture.programs import Program
from tantamount.comparison.relation_files import document_of_inputs
from tantamount.correspond.guesses import guesses
from tantamount.errors import UserError
from tantamount.ir.graph import Graph
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.semantics.reference import Array
from tantamount.verdict import Assumption, Relation

__all__ = ["Apart", "Pair", "Unpaired", "pair_of"]

_FIRST, _SECOND = "first", "second"


@dataclass(frozen=True)
class Apart:
    """Both programs executed as they are, in their own dtypes, on one random input: by how much the outputs differ at
    most, the largest element, and the precision of their dtype. ``inputs``: what each program was given, as far as it
    is known, by the names of its inputs."""

    distance: float
    largest: float
    precision: float
    inputs: tuple[Mapping[str, Array], Mapping[str, Array]] = ({}, {})

    @property
    def far(self) -> bool:
        """True if the outputs have in common less than half of the digits of their dtype."""
        return self.distance > sqrt(self.precision) * max(self.largest, 1e-30)


@dataclass(frozen=True)
class OtherWeights:
    """Recorded weights that are not the other program's: ``text`` says which, ``equal`` makes the pair of the same
    programs where they are equal."""

    text: str
    equal: Callable[[], Pair]


@dataclass(frozen=True)
class Unpaired:
    """Outputs that are not compared, by their names in the ``first`` and in the ``second`` program; ``chosen``:
    somebody said which are."""

    first: tuple[str, ...] = ()
    second: tuple[str, ...] = ()
    chosen: bool = False

    @property
    def doubtful(self) -> bool:
        """True if outputs of both programs are left that may be the same one under two names."""
        return bool(self.first and self.second) and not self.chosen

    def __str__(self) -> str:
        sides = zip((self.first, self.second), ("first", "second"), strict=True)
        return " and ".join(f"{_listed(names)} of the {side} program" for names, side in sides if names)


@dataclass(frozen=True)
class Pair:
    """A job on one rank, with the names of the inputs of the first program whose relation is only guessed, and how.
    ``unpaired``: outputs of either program that are not compared. ``notes``: what a reader
    should know of the loaders; ``weights``: parameters of the first program, made of those of the second;
    ``assumptions``: what the relations rest on. ``distance`` executes both as they are, where they can be, on the input
    of a seed. ``document``: the relations as a file has them (:mod:`tantamount.comparison.relation_files`); empty for a
    job, which has its own. ``tensors``: the inputs of each program that hold tensors of a checkpoint, by those.
    ``other_weights``: those in which the programs differ, whatever operators they have."""

    job: Job
    guessed: Mapping[str, str]
    unpaired: Unpaired = field(default_factory=Unpaired)
    notes: tuple[str, ...] = ()
    weights: tuple[Relation, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    distance: Callable[[int], Apart | None] | None = None
    document: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tensors: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
    other_weights: OtherWeights | None = None


def pair_of(
    first: object,
    second: object,
    *,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    guess: bool = True,
) -> Pair:
    """The job that the second program computes what the first does. ``inputs`` and ``outputs`` are relations as a job
    writes them, by names of the first program; inputs that they leave out are guessed from names and shapes (unless
    ``guess`` is false), and stay unrelated where nothing fits. Outputs are paired by name, else by position. Raises
    :class:`UserError` for relations that do not fit, and where no output has a counterpart."""
    graphs = _graph(first, "first"), _graph(second, "second")
    captured = isinstance(first, Program) and isinstance(second, Program)
    name = "captured programs" if captured else f"{graphs[0].path} and {graphs[1].path}"
    return _pair(*graphs, inputs or {}, outputs or {}, guess, name)


def _graph(program: object, which: str) -> Graph:
    """The graph of a program that is captured or read."""
    if isinstance(program, Program):
        return program.graph
    if isinstance(program, Graph):
        return program
    raise UserError(
        "compare-programs", place="compare", found=f"a {which} program of type {type(program).__name__}",
        needed="what tantamount.capture returned, or a graph that was read",
    )  # fmt: skip


def _pair(
    first: Graph, second: Graph, inputs: Mapping[str, Any], outputs: Mapping[str, Any], guess: bool, name: str
) -> Pair:
    given = dict(inputs)
    found = guesses(Unresolved(first, (second,), Mesh(), given)) if guess else ()
    relations: dict[str, Any] = {**given, **{guess.name: guess.relation for guess in found}}
    wanted, unpaired = _outputs(first, second, dict(outputs))
    document: dict[str, Any] = {
        "format": "job/1",
        "spec": {"graph": _FIRST},
        "impl": {"graphs": [_SECOND], "mesh": {}},
        "inputs": relations,
        "outputs": wanted,
    }
    job = job_of(document, {_FIRST: first, _SECOND: second}, name, partial=True)
    return Pair(
        job,
        {guess.name: guess.reason for guess in found},
        unpaired,
        _of_other_shapes(first, second, relations) if guess else (),
        document=document_of_inputs(relations, wanted),
    )


def _of_other_shapes(first: Graph, second: Graph, related: Mapping[str, Any]) -> tuple[str, ...]:
    """A note on the inputs that nothing relates, because they have one name and other shapes."""
    there = {node.name: node.type.shape for node in second.inputs if node.type is not None}
    found = [
        f"{node.name} is {list(node.type.shape)} in the first program and {list(there[node.name])} in the second"
        for node in first.inputs
        if node.type is not None
        and node.name not in related
        and there.get(node.name, node.type.shape) != node.type.shape
    ]
    if not found:
        return ()
    more = f" (and {len(found) - 1} more of other shapes)" if len(found) > 1 else ""
    return (f"nothing relates inputs of other shapes: {found[0]}{more}",)


def _outputs(first: Graph, second: Graph, given: dict[str, Any]) -> tuple[dict[str, Any], Unpaired]:
    """The expectation of every output that has a counterpart, and the names of the others."""
    here, there = [output.name for output in first.outputs], [output.name for output in second.outputs]
    if given:
        if "default" in given:
            return given, Unpaired()
        named = {_counterpart(name, wanted) for name, wanted in given.items()}
        return given, Unpaired(
            tuple(name for name in here if name not in given), tuple(name for name in there if name not in named), True
        )
    common = [name for name in here if name in there]
    if not common and len(here) == len(there):
        return {x: {"name": y, "placement": "Replicate()"} for x, y in zip(here, there, strict=True)}, Unpaired()
    if not common:
        raise UserError(
            "compare-outputs", place="compare", found=f"outputs {_listed(here)} and {_listed(there)}",
            needed="outputs of the same names, or as many of one program as of the other",
            hint="say which are compared: --output 'logits={ name = \"output\", placement = \"Replicate()\" }'",
        )  # fmt: skip
    mine, theirs = (tuple(name for name in names if name not in common) for names in (here, there))
    return dict.fromkeys(common, "Replicate()"), Unpaired(mine, theirs)


def _counterpart(name: str, wanted: Any) -> str:
    """The output of the second program that an expectation is about: of the same name, unless it says another."""
    return str(cast("Mapping[str, Any]", wanted).get("name", name)) if isinstance(wanted, Mapping) else name


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
