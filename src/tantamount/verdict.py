"""Verdicts and the report that carries them: plain data, shared by every layer. Imports nothing of ours but ``ir``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from tantamount.ir.graph import Graph, Source

__all__ = [
    "DIFFERENCES",
    "Assumption",
    "Counterexample",
    "Elementwise",
    "LimitHit",
    "Link",
    "Mismatch",
    "OutputReport",
    "Picture",
    "Relation",
    "Report",
    "ProgramPicture",
    "SideCondition",
    "Statistics",
    "Verdict",
    "worst",
]


class Verdict(Enum):
    """The verdict on a job or an output. The value is the exit code's meaning; ordering from best to worst is in
    :func:`worst`."""

    PROVED = "PROVED"
    REFUTED = "REFUTED"
    UNKNOWN = "UNKNOWN"
    VACUOUS = "VACUOUS"
    EQUAL_REDUCED = "EQUAL AT REDUCED SHAPES"

    @property
    def exit_code(self) -> int:
        return {Verdict.PROVED: 0, Verdict.REFUTED: 1}.get(self, 3)


_SEVERITY = (Verdict.PROVED, Verdict.EQUAL_REDUCED, Verdict.VACUOUS, Verdict.UNKNOWN, Verdict.REFUTED)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of some verdicts; of none, ``VACUOUS``."""
    return max(verdicts, key=_SEVERITY.index, default=Verdict.VACUOUS)


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something the verdict rests on. ``name`` is what ``--strict`` refers to (``real-arithmetic``, ``dropout``,
    ``constants``, ``domain``, ``index-range``, ``opaque-operator``, ``input-restriction``); ``text`` one sentence."""

    name: str
    text: str
    places: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Relation:
    """The relation that makes one specification tensor of implementation tensors: ``tensor = expression``.

    ``expression`` uses DTensor placements or a clean expression; ``implementation`` names the tensor that
    it is about (empty where the expression does). Where ``expression`` is for people only (an index map), ``exact`` is
    the same as a clean expression.
    """

    tensor: str
    expression: str
    implementation: str
    source: Source | None = None
    exact: str = ""

    def __str__(self) -> str:
        return f"{self.tensor} = {self.expression}" + (
            f" of {self.implementation}" if self.implementation not in ("", self.tensor) else ""
        )


# The kinds of differences, each with one sentence. Where several are found the first of them says most; positions alone
# may be due to the placement that was guessed.
DIFFERENCES: Mapping[str, str] = {
    "unreduced": "A sum over ranks is missing",
    "wrapped": "An integer type ends",
    "factor": "A constant factor differs",
    "constant": "A constant differs",
    "exponent": "An exponent differs",
    "operand": "Another operand is used",
    "range": "A sum has another range",
    "missing": "A term is missing",
    "extra": "There is a term too many",
    "different": "The two sides compute different values",
    "offset": "Positions are shifted",
    "attribute": "An operator has another attribute",
    "operation": "Another operator is applied",
}


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first specification operator without a counterpart although its inputs have one.

    ``difference`` says in words how the nearest implementation tensor differs; ``specification`` and
    ``implementation`` are node names (the latter empty if none comes near), with their operators and source lines.
    ``headline`` is one sentence for somebody who sees only that, ``hint`` the next step, ``kind`` a stable name of the
    difference (a key of :data:`DIFFERENCES`); any of them may be empty.
    """

    specification: str
    operator: str
    difference: str
    implementation: str = ""
    implementation_operator: str = ""
    specification_source: Source | None = None
    implementation_source: Source | None = None
    rank: int | None = None
    equations: tuple[str, ...] = ()
    headline: str = ""
    hint: str = ""
    kind: str = ""

    def undecided(self) -> Mismatch:
        """The same place in a program of which nothing is refuted: that forms differ shows no difference of values."""
        told = self.headline.replace(" is not the ", " was not shown to be the ", 1)
        return replace(self, headline=told)


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A concrete input on which the two differ, replayed by executing both graphs.

    ``inputs`` are specification inputs as nested lists; ``expected`` is the specification's value at ``element`` of
    ``output``, ``actual`` the implementation's there, on ``rank``. If the job is too large to be executed, it was at
    smaller shapes: ``sizes`` has what became of every size that changed (several, if sizes that are equal by chance
    became different); empty: at the job's own shapes.
    """

    output: str
    element: tuple[int, ...]
    expected: float
    actual: float
    rank: int
    inputs: Mapping[str, Any]
    seed: int
    sizes: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])


@dataclass(frozen=True, slots=True)
class OutputReport:
    """The verdict of one specification output.

    ``relation`` is the clean relation that was proved (``None`` if none was found), ``expectation`` what the job wanted
    (``infer`` if nothing in particular), ``reason`` one sentence if not proved, ``notes`` what a reader should not miss
    (such as: this relation sums over ranks).
    """

    name: str
    verdict: Verdict
    relation: Relation | None
    expectation: str
    reason: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LimitHit:
    """A limit that ended or narrowed what was tried: its name as ``tantamount explain`` knows it
    (``limit-expanded-terms``), what it allows (``256``, ``30 s``), what it would have taken at least (``None``: not
    known), and how often it was hit."""

    name: str
    allowed: str
    needed: int | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class Statistics:
    """The time and size of a check. ``folded``: all ranks were run as one, as mesh axes; ``classes``: how many groups
    of ranks were run as one each. ``seconds`` is CPU time by phase: ``read``, ``specification``, ``implementation``,
    ``relation``, ``witness``. ``rules``: how often each rule of the calculus fired; those that never did are left
    out."""

    specification_nodes: int
    implementation_nodes: int
    ranks: int
    folded: bool
    atoms: int
    terms: int
    seconds: Mapping[str, float]
    peak_memory_bytes: int
    classes: int = 1
    rules: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class SideCondition:
    """A condition under which equality at reduced shapes would mean equality at all, for one size that was reduced:
    ``size`` is that (``768 -> 4``), ``condition`` a clause, ``broken`` what does not fulfil it (empty: it holds)."""

    size: str
    condition: str
    broken: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Elementwise:
    """The work of the second engine, at the sizes that ``sizes`` changed (``unreduced``: why none was). Of the
    ``elements`` of all outputs, as relations compare them, ``by_expression`` were the same expression (after what
    ``stages`` replaced), ``by_solver`` equal by z3, ``undecided`` neither. ``stages`` are tensors with elements that z3
    showed to be those of the specification on the way: rank, node, how many. Of the ``questions`` to z3 no two are
    equal up to names; ``renamed`` were."""

    sizes: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    unreduced: str = ""
    elements: int = 0
    by_expression: int = 0
    by_solver: int = 0
    undecided: int = 0
    stages: tuple[tuple[int, str, int], ...] = ()
    questions: int = 0
    renamed: int = 0
    terms: int = 0
    conditions: tuple[SideCondition, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgramPicture:
    """One program to be drawn: the graph that ``ranks`` run (empty: the specification), and by node name the normal
    form of every tensor as text."""

    graph: Graph
    ranks: tuple[int, ...]
    forms: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Link:
    """A specification tensor and an implementation tensor that are related: node names, the position of the
    implementation's program in :attr:`Picture.implementation`, and the relation."""

    specification: str
    program: int
    implementation: str
    relation: str


@dataclass(frozen=True, slots=True)
class Picture:
    """Both programs with what was found about their tensors, to be drawn. ``implementation`` has every different
    program once; ``outputs`` the node behind each checked output, and the implementation's in every program that has
    it."""

    specification: ProgramPicture
    implementation: tuple[ProgramPicture, ...]
    links: tuple[Link, ...]
    outputs: Mapping[str, tuple[str, tuple[str | None, ...]]]


@dataclass(frozen=True)
class Instance:
    """A piece of both programs that a lemma was applied to. ``lemma``: its number; the first instance is the one that
    was proved. Of each side the names of what it reads and of its nodes, in an order in which those of all instances
    belong together. ``equal``: tensors of the specification that equal another one, which later pieces read instead;
    ``gives``: the relations of what it hands on."""

    lemma: int
    specification: tuple[tuple[str, ...], tuple[str, ...]]
    implementation: tuple[tuple[str, ...], tuple[str, ...]]
    equal: Mapping[str, str]
    gives: tuple[Relation, ...]


@dataclass(frozen=True)
class Report:
    """The whole answer to one job. Plain data; :class:`tantamount.answers.Answer` can also show and save itself.

    ``refused`` are the assumptions that ``--strict`` refused; ``limits`` what ended or narrowed a search, ``stopped``
    the name of the limit that ended the work on the job before it was done (``limit-timeout``, ``limit-memory``).
    ``sides``: what text calls the two programs; ``weights``: parameters of the first, made of those of the second,
    where loaders told; ``not_compared``: outputs of either that nothing was asked of. ``elementwise``: what the second
    engine did (``None``: the first one answered). ``lemmas``: of a job that was proved piece by piece the pieces, in
    the order of the programs."""

    job: str
    verdict: Verdict
    outputs: tuple[OutputReport, ...]
    outputs_total: int
    assumptions: tuple[Assumption, ...]
    relations: tuple[Relation, ...]
    mismatch: Mismatch | None
    counterexample: Counterexample | None
    statistics: Statistics
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    limits: tuple[LimitHit, ...] = ()
    stopped: str = ""
    sides: tuple[str, str] = ("specification", "implementation")
    weights: tuple[Relation, ...] = ()
    not_compared: tuple[str, ...] = ()
    elementwise: Elementwise | None = None
    lemmas: tuple[Instance, ...] = ()

    @property
    def exit_code(self) -> int:
        return self.verdict.exit_code

    @property
    def proved(self) -> bool:
        """True if everything that was asked is proved."""
        return self.verdict is Verdict.PROVED
