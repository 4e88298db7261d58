"""Equal layers once: a long job proved piece by piece, and equal pieces by one proof.

Both programs are cut at the same number of places. A piece of a job is a job: the nodes between two cuts on both
sides, the tensors that they read from earlier pieces as inputs, of which the proofs of those pieces say how they are
related. It is proved for all values of its inputs, so for those that they have. Two pieces with the same key, which
has everything that such a proof can depend on but names, are one lemma. docs/design/lemmas.md argues that this is
sound. What does not fit is not proved here: there is no answer then, and the job is proved as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tantamount.calculus.atoms import Store
from tantamount.calculus.calculus import Calculus
from tantamount.calculus.compare import equal
from tantamount.calculus.infinities import is_real
from tantamount.ir.graph import Graph, Node
from tantamount.ir.job import Job
from tantamount.ir.layouts import layouts
from tantamount.ir.relation import InputRelation, Partial, Placement, Sign
from tantamount.ops.algebra import Tensor
from tantamount.ops.calls import operator_of
from tantamount.ops.classes import rank_classes
from tantamount.proof.assumptions import open_obligations
from tantamount.proof.cuts import Aligned, sign_of
from tantamount.proof.inputs import build_inputs
from tantamount.proof.outputs import output_node, show
from tantamount.proof.pieces import Piece, Side, Unfit, key_of, named, program_key
from tantamount.proof.places import places_of
from tantamount.proof.places_by_inputs import in_shapes_of, places_by_inputs
from tantamount.proof.proof import Options, Proof, prove
from tantamount.proof.questions import partial_layout_of
from tantamount.verdict import Assumption, Instance, OutputReport, Relation, Verdict

__all__ = ["InPieces", "Lemmas", "Open", "prove_in_pieces", "would_be_proved"]

_LONG = 150  # nodes of a specification from which on pieces pay
_FIT = 2  # pieces that are proved at places where programs are well cut: what is before the first layer, and one layer
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class InPieces:
    """The statements of the proofs of pieces about the job, every output of which is proved. ``pieces``: how many there
    are; ``proofs`` those of the lemmas. Of tensors of the implementation that are handed on: ``pairs`` has the
    specification tensor and the placements; ``copies``, by side, tensors that equal another one, which is handed on
    instead; ``instances`` are the pieces, with the numbers of their lemmas."""

    outputs: tuple[OutputReport, ...]
    relations: tuple[Relation, ...]
    assumptions: tuple[Assumption, ...]
    pieces: int
    proofs: tuple[Proof, ...]
    pairs: Mapping[str, tuple[str, tuple[Placement, ...]]] = field(
        default_factory=dict[str, "tuple[str, tuple[Placement, ...]]"]
    )
    copies: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
    instances: tuple[Instance, ...] = ()


@dataclass(frozen=True)
class Open:
    """The first ``piece`` of a job that is not proved, and ``found``, what those before it say. ``expected``: what it
    probably should hand on, by tensor of the implementation: a guess, on which nothing rests. ``lemmas`` are known to
    another proof of pieces, and ``places`` are where both programs were cut: those of ``job``, whose specification
    computes the same as that of the job that was asked about, with views."""

    job: Job
    piece: Piece
    found: InPieces
    expected: Mapping[str, tuple[str, tuple[Placement, ...]]]
    lemmas: Lemmas
    places: Sequence[tuple[int, int]]


def _unheard(_: object) -> None:
    """Tells nobody."""


def prove_in_pieces(
    job: Job,
    options: Options,
    *,
    least: int = _LONG,
    places: Sequence[tuple[int, int]] | None = None,
    handed_on: tuple[Collection[str], Collection[str]] = ((), ()),
    lemmas: Lemmas | None = None,
    left: Callable[[Open], None] = _unheard,
) -> InPieces | None:
    """The proof of a long job (``least``: nodes of the specification) whose programs have runs of equal pieces;
    ``None`` where there is none of this kind. ``places``: positions at which both programs are cut, if not where runs
    say. ``handed_on``: tensors of both that are read by what comes after the job; then there need be no places.
    ``lemmas``: what is proved of pieces already; ``left`` is told of the first piece that is not proved. Raises
    :class:`UserError` as :func:`prove` does."""
    if options.align is None or options.fold is False or options.cut is False or job.at is not None:
        return None
    if len(job.specification.nodes) < least or not _suits(job):
        return None

    def prove_at(
        job: Job, places: Sequence[tuple[int, int]], told: Callable[[Open], None], options: Options = options
    ) -> InPieces | None:
        if not places and not handed_on[1]:
            return None
        try:
            return _Pieces(job, options, places, handed_on, lemmas=dict(lemmas or {}), left=told).prove()
        except Unfit:
            return None

    if places is not None or any(handed_on):
        return prove_at(job, places_of(job) if places is None else places, left)
    open_: list[tuple[int, Open]] = []
    for way in (places_of, places_by_inputs):
        places = way(job)
        seen, at, views = in_shapes_of(job, places)

        def told(one: Open, views: Collection[str] = views) -> None:
            open_.append((len(one.found.instances), replace(one, found=_without(one.found, views))))

        def so_far(make: Callable[[], InPieces], views: Collection[str] = views) -> None:
            options.so_far(lambda: _without(make(), views))

        found = prove_at(seen, at, told, replace(options, so_far=so_far) if views else options)
        if found is not None:
            return _without(found, views) if views else found
        if views and (found := prove_at(job, places, told)) is not None:
            return found
        if any(number >= _FIT for number, _ in open_):
            break  # these are good places
    if open_:
        left(max(open_, key=lambda one: one[0])[1])
    return None


def would_be_proved(left: Open, options: Options) -> bool:
    """True if all of the job but its open piece is proved, should that hand on what is expected of it: then what is
    expected is right, and nothing else is wrong."""
    pieces = _Pieces(left.job, options, left.places, lemmas=dict(left.lemmas), granted=left.expected)
    try:
        pieces.prove()
    except Unfit:
        return False
    return pieces.granted is None


def _without(found: InPieces, views: Collection[str]) -> InPieces:
    """The same without tensors that only the specification with views has."""
    relations = tuple(one for one in found.relations if one.tensor not in views)
    pairs = {name: pair for name, pair in found.pairs.items() if pair[0] not in views}
    copies = {a: b for a, b in found.copies[0].items() if a not in views and b not in views}
    return replace(found, relations=relations, pairs=pairs, copies=(copies, found.copies[1]), instances=())


def _suits(job: Job) -> bool:
    """True if pieces of the programs are functions of what they read, and all ranks run one program: nothing is drawn
    at random or sent from rank to rank, no constant is unknown, no relation restricts the specification."""
    if len(rank_classes(job.implementation, job.mesh)) > 1:
        return False
    for graph in (job.specification, *job.programs):
        for node in graph.nodes:
            if node.op == "constant" and node.target not in graph.constants:
                return False
            row = operator_of(graph, node) if node.op == "call" and node.target != "getitem" else None
            if row is not None and (row.category == "random" or row.peer_parameter is not None):
                return False
    relations = job.inputs.values()
    plain = all(relation.placements is not None and not relation.equal for relation in relations)
    if plain and len({relation.name for relation in relations}) == len(relations):
        return True  # of each input another tensor
    return not build_inputs(Calculus(), job).restrictions


# ---------------------------------------------------------------------------------------------- one piece
@dataclass(frozen=True)
class _Lemma:
    """The statements of one proof: of tensors that are handed on, the specification tensor and the placements, and the
    signs of its elements and of theirs; tensors of the specification that are copies of others; outputs, relations and
    assumptions."""

    piece: Piece
    proof: Proof
    pairs: Mapping[str, tuple[str, tuple[Placement, ...]]]
    signs: Mapping[str, tuple[Sign, Sign]]
    copies: Mapping[str, str]
    outputs: tuple[OutputReport, ...]
    relations: tuple[Relation, ...]
    assumptions: tuple[Assumption, ...]
    number: int = 0


Lemmas = Mapping[object, _Lemma]  # by the keys of pieces


@dataclass
class _Pieces:
    """The pieces of a job, proved in the order of the programs. ``known``: of tensors of the implementation that are
    handed on, what they are; ``signs``, of which signs; ``copies`` by side: tensors that equal another one, which is
    read instead. ``granted``: what the first piece that is not proved is taken to hand on: then nothing is proved of
    the job, but that the rest would be."""

    job: Job
    options: Options
    places: Sequence[tuple[int, int]]
    handed_on: tuple[Collection[str], Collection[str]] = ((), ())
    known: dict[str, tuple[str, tuple[Placement, ...]]] = field(
        default_factory=dict[str, "tuple[str, tuple[Placement, ...]]"]
    )
    signs: dict[str, tuple[Sign, Sign]] = field(default_factory=dict[str, "tuple[Sign, Sign]"])
    copies: tuple[dict[str, str], dict[str, str]] = field(default_factory=lambda: (dict[str, str](), dict[str, str]()))
    lemmas: dict[object, _Lemma] = field(default_factory=dict[object, _Lemma])
    left: Callable[[Open], None] = _unheard
    granted: Mapping[str, tuple[str, tuple[Placement, ...]]] | None = None
    _first: dict[object, str] = field(default_factory=dict[object, str])
    _about: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])  # by input of the specification
    _related: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])  # by input of the implementation

    def __post_init__(self) -> None:
        for name, relation in self.job.inputs.items():
            self._about[name] = named(relation)
            for other in self._about[name]:
                self._related.setdefault(other, set()).add(name)

    def prove(self) -> InPieces:
        """Raises :class:`Unfit` where a piece is not proved."""
        job = self.job
        ours = Side(job.specification, [a for a, _ in self.places])
        theirs = Side(job.implementation[0], [b for _, b in self.places])
        for output in job.specification.outputs:
            if output.name in job.outputs:
                nodes = _asked(job, output.name)
                at = max(ours.at(output.node), *map(theirs.at, nodes))
                ours.ask(at, output)
                for other in theirs.graph.outputs:
                    if other.node in nodes:
                        theirs.ask(at, other)
        ours.keep(self.handed_on[0])
        theirs.keep(self.handed_on[1])
        outputs: dict[str, OutputReport] = {}
        relations: dict[str, Relation] = {}
        assumptions: dict[tuple[str, str], dict[str, None]] = {}

        instances: list[Instance] = []

        def found_so_far() -> InPieces:
            return InPieces(
                tuple(outputs[name] for name in wanted if name in outputs),
                tuple(relations[node.name] for node in job.specification.nodes if node.name in relations),
                tuple(Assumption(name, text, tuple(sites)) for (name, text), sites in assumptions.items()),
                len(self.places) + 1,
                tuple(lemma.proof for lemma in self.lemmas.values()),
                self.known,
                self.copies,
                tuple(instances),
            )

        wanted = [output.name for output in job.specification.outputs if output.name in job.outputs]
        for k in range(len(self.places) + 1):
            self.options.effort.check()
            if ours.is_empty(k) and theirs.is_empty(k):
                continue
            piece = self.piece(ours, theirs, k)
            try:
                lemma = self._lemma(piece)
            except Unfit:
                if self.granted is not None and {*self.granted} == {*piece.handed_on}:
                    self.known.update(self.granted)
                    self.signs.update(dict.fromkeys(self.granted, (Sign.ANY, Sign.ANY)))
                    wanted = [name for name in wanted if name not in piece.job.outputs]
                    self.granted = None
                    continue
                self.left(Open(self.job, piece, found_so_far(), self._expected(piece), self.lemmas, self.places))
                raise
            names = _Names(lemma.piece.job, piece.job)
            instances.append(self._instance(lemma, piece, names))
            for u, (t, placements) in lemma.pairs.items():
                name, whole = names.implementation[u], names.specification[t]
                first = self._first.setdefault((whole, placements), name)
                if first == name or any(isinstance(p, Partial) for p in placements):  # summands are not determined
                    self.known[name] = whole, placements
                    self.signs[name] = lemma.signs[u]
                else:
                    self.copies[1][name] = first
            self.copies[0].update((names.specification[a], names.specification[b]) for a, b in lemma.copies.items())
            relations.update((found.tensor, found) for found in map(names.relation, lemma.relations))
            for found in lemma.assumptions:
                sites = assumptions.setdefault((found.name, found.text), {})
                sites.update(dict.fromkeys(names.either(place) for place in found.places))
            # last, after what they rest on: the work may be stopped in between
            outputs.update((found.name, found) for found in map(names.output, lemma.outputs))
            if self.options.effort.limited and lemma.outputs:
                self.options.so_far(found_so_far)
        if any(name not in outputs for name in wanted):
            raise Unfit
        return found_so_far()

    def _instance(self, lemma: _Lemma, piece: Piece, names: _Names) -> Instance:
        pairs = ((names.implementation[u], names.specification[t], p) for u, (t, p) in lemma.pairs.items())
        return Instance(
            lemma.number,
            _inputs_and_nodes(piece.job.specification),
            _inputs_and_nodes(piece.job.implementation[0]),
            {names.specification[a]: names.specification[b] for a, b in lemma.copies.items()},
            tuple(Relation(whole, show(placements), name) for name, whole, placements in pairs),
        )

    # -- the job of a piece
    def piece(self, ours: Side, theirs: Side, k: int) -> Piece:
        """The k-th piece, with all inputs that relations of its inputs name."""
        job = self.job
        read = ours.read(k, self.copies[0])
        used = theirs.read(k, self.copies[1])
        inputs: dict[str, InputRelation] = {}
        for name in used:
            if theirs.graph.by_name[name].op == "input":
                continue
            if name not in self.known:
                raise Unfit
            whole, placements = self.known[name]
            if whole in inputs:  # two tensors of the implementation are parts of it
                raise Unfit
            inputs[whole] = InputRelation(name, placements, text=show(placements), signs=self.signs[name])
        wanted, held = {*read, *inputs}, {*used}
        pending = [*wanted, *held]
        while pending:  # related inputs come together
            name = pending.pop()
            theirs_too = self._about.get(name, set[str]()) - held if name in wanted else set[str]()
            ours_too = self._related.get(name, set[str]()) - wanted if name in held else set[str]()
            held |= theirs_too
            wanted |= ours_too
            pending += [*theirs_too, *ours_too]
        inputs.update((name, job.inputs[name]) for name in sorted(wanted) if name in job.inputs)
        checked = {o.name: job.outputs[o.name] for o in ours.outputs(k)}
        specification = ours.piece(job.specification, k, wanted, self.copies[0])
        implementation = job.on_ranks([theirs.piece(graph, k, held, self.copies[1]) for graph in job.programs])
        part = Job(job.path, specification, implementation, job.mesh, inputs, checked, job.assume)
        return Piece(part, theirs.handed_on(k), ours.handed_on(k))

    # -- its proof
    def _lemma(self, piece: Piece) -> _Lemma:
        key = key_of(piece)
        if key not in self.lemmas:
            self.lemmas[key] = replace(_proved(piece, self.options), number=len(self.lemmas))
        return self.lemmas[key]

    # -- a piece that is not proved
    def _expected(self, piece: Piece) -> dict[str, tuple[str, tuple[Placement, ...]]]:
        """The placements of all that a piece which is not proved hands on: those of one that is proved, if it has the
        same specification; else, in the order of both programs, parts of what later pieces read."""
        whole = piece.job.specification
        key, count = program_key(whole), len(piece.handed_on)
        for lemma in self.lemmas.values():
            first = lemma.piece
            if len(first.handed_on) == count and program_key(first.job.specification) == key:
                numbers = {node.name: k for k, node in enumerate(first.job.specification.nodes)}
                known = [lemma.pairs[name] for name in first.handed_on]
                return {
                    name: (whole.nodes[numbers[t]].name, placements)
                    for name, (t, placements) in zip(piece.handed_on, known, strict=True)
                }
        found: dict[str, tuple[str, tuple[Placement, ...]]] = {}
        for name, t in zip(piece.handed_on, piece.read, strict=False):
            shape, local = (g.by_name[n].type for g, n in ((whole, t), (piece.job.implementation[0], name)))
            if len(piece.read) == count and shape is not None and local is not None:
                placed = layouts(shape.shape, piece.job.mesh.sizes, local=local.shape)
                found |= {name: (t, placed[0])} if placed else {}
        return found


def _inputs_and_nodes(graph: Graph) -> tuple[tuple[str, ...], tuple[str, ...]]:
    inputs = tuple(node.name for node in graph.inputs)
    return inputs, tuple(node.name for node in graph.nodes if node.op != "input")


def _asked(job: Job, name: str) -> set[str]:
    """The nodes of the implementation that an expectation is about; none where it names none."""
    expectation = job.outputs[name]
    if expectation.infer or expectation.problem:
        raise Unfit
    return {output_node(job, 0, found) for found in named(expectation, name)}


# ---------------------------------------------------------------------------------------------- proofs
def _proved(piece: Piece, options: Options) -> _Lemma:
    """The proof of a piece. Raises :class:`Unfit` unless its outputs are proved, and of all tensors that are handed on
    it is proved which part of the specification's each rank holds, and that both are defined for all inputs."""
    proof = prove(piece.job, replace(options.silent(), cut=True))
    ours, theirs, cuts = proof.specification, proof.implementation, proof.cuts
    if not proof.folded or ours.constants or theirs.constants or ours.masks or theirs.masks:
        raise Unfit
    if ours.failures or theirs.failures:  # values that the calculus does not know
        raise Unfit
    if proof.inputs.restrictions or open_obligations(proof.store, ours, theirs):
        raise Unfit
    if piece.handed_on and any(o.kind != "index" for trace in ours.traces for o in trace.obligations):
        raise Unfit
    outputs = proof.check_twice()
    if any(output.verdict is not Verdict.PROVED or output.reason for output in outputs):
        raise Unfit
    pairs: dict[str, tuple[str, tuple[Placement, ...]]] = {}
    copies: dict[str, str] = {}
    for name in piece.handed_on:
        value = theirs.environments[0].get(name)
        if not _total(proof.store, value):
            raise Unfit
        found: tuple[Aligned, ...] = ()
        if cuts is not None and isinstance(value, Tensor):
            found = cuts.parts(theirs.classes[0], name, value)
        found = tuple(one for one in found if _total(proof.store, ours.values.get(one.names[0])))
        if not found:
            pairs[name] = _summands(proof, piece, name)
            continue
        best = min(found, key=lambda one: one.names[0] not in piece.read)
        whole = copies.get(best.names[0], best.names[0])
        pairs[name] = whole, best.placements
        for other in found:
            copy = other.names[0]
            if copy in piece.read and copy != whole and copy not in copies and _same(proof, whole, copy):
                copies[copy] = whole
    partners = {whole for whole, _ in pairs.values()}
    others = [*partners, *(node.name for node in piece.job.specification.inputs)]
    for copy in piece.read:  # what the implementation has once
        if copy not in partners and copy not in copies:
            whole = next((whole for whole in others if whole != copy and _same(proof, whole, copy)), None)
            if whole is not None:
                copies[copy] = copies.get(whole, whole)
    if set(copies) & {whole for whole, _ in pairs.values()}:
        raise Unfit
    signs = {
        name: (_sign(proof.store, ours.values[whole]), _sign(proof.store, theirs.environments[0][name]))
        for name, (whole, _) in pairs.items()
    }
    return _Lemma(piece, proof, pairs, signs, copies, outputs, tuple(proof.relations().values()), proof.assumptions())


def _summands(proof: Proof, piece: Piece, name: str) -> tuple[str, tuple[Placement, ...]]:
    """The tensor of which the ranks hold summands, among those that later pieces read, and those that this one reads
    (where summands are added up on the way). Raises :class:`Unfit`."""
    wholes = [*piece.read, *(node.name for node in piece.job.specification.inputs)]
    wholes = [whole for whole in wholes if _total(proof.store, proof.specification.values.get(whole))]
    for expand in (False, True):
        for whole in wholes:
            placements = partial_layout_of(proof, whole, name, expand=expand)
            if placements is not None:
                return whole, placements
    raise Unfit


def _total(store: Store, value: object) -> bool:
    """True if a tensor is a real number everywhere, whatever the inputs are."""
    return isinstance(value, Tensor) and is_real(store, value.value)


def _sign(store: Store, value: object) -> Sign:
    return sign_of(store, value.value) if isinstance(value, Tensor) else Sign.ANY


def _same(proof: Proof, first: str, other: str) -> bool:
    a, b = proof.specification.values[first], proof.specification.values[other]
    if not isinstance(a, Tensor) or not isinstance(b, Tensor) or a.shape != b.shape or a.dtype is not b.dtype:
        return False
    if not _total(proof.store, a) or not _total(proof.store, b):
        return False
    return equal(proof.store, a.value, b.value, expand=False) is None


# ---------------------------------------------------------------------------------------------- instances
class _Names:
    """The names of one piece for those of another with the same key."""

    def __init__(self, first: Job, other: Job) -> None:
        def table(a: Iterable[Node], b: Iterable[Node]) -> dict[str, str]:
            return {x.name: y.name for x, y in zip(a, b, strict=True)}

        self.specification = table(first.specification.nodes, other.specification.nodes)
        self.implementation = table(first.implementation[0].nodes, other.implementation[0].nodes)
        self._other = other
        checked = [[o for o in job.specification.outputs if o.name in job.outputs] for job in (first, other)]
        self._outputs = {a.name: b.name for a, b in zip(*checked, strict=True)}
        held = zip(first.implementation[0].outputs, other.implementation[0].outputs, strict=True)
        self._theirs = {**self.implementation, **{a.name: b.name for a, b in held}}

    def either(self, place: str) -> str:
        """A node of either program."""
        return self.specification.get(place) or self.implementation.get(place) or place

    def relation(self, found: Relation) -> Relation:
        """The relation between the tensors of the other piece."""
        tensor = self.specification.get(found.tensor) or self._outputs.get(found.tensor, found.tensor)
        node = self._other.specification.by_name.get(tensor)
        return Relation(
            tensor,
            self._text(found.expression),
            self._theirs.get(found.implementation, found.implementation),
            found.source if node is None or found.source is None else node.source,
            self._text(found.exact),
        )

    def output(self, found: OutputReport) -> OutputReport:
        """The report on the output of the other piece."""
        name = self._outputs[found.name]
        relation = found.relation and replace(self.relation(found.relation), tensor=self._of(found, name))
        notes = tuple(map(self._text, found.notes))
        return replace(found, name=name, relation=relation, expectation=self._other.outputs[name].text, notes=notes)

    def _of(self, found: OutputReport, name: str) -> str:
        """The tensor that the relation of an output is of: the output, or its node."""
        tensor = "" if found.relation is None else found.relation.tensor
        return name if tensor == found.name else self.specification.get(tensor, tensor)

    def _text(self, text: str) -> str:
        return _QUOTED.sub(lambda match: f'"{self._theirs.get(match[1], match[1])}"', text)
