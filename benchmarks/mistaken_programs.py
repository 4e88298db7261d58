"""Programs that are right, the mistakes that are made in them, and both in files: what was captured where the
frameworks are can be judged where there is none of them.

    DIR/programs/NAME/       a job and its graphs
    DIR/cases.json           the mistakes: the program, the class, the operator, the ranks, the right places, and which
                             nodes take the place of which"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import layered_programs as deep
import tomli_w

import tantamount
from tantamount import read_job
from tantamount.capture.fx_json import graph_of
from tantamount.capture.graph_document import graph_document
from tantamount.capture.programs import write_document
from tantamount.correspond.alignment import align
from tantamount.errors import Unsupported, UserError
from tantamount.execution.differences import examine, output_claim
from tantamount.execution.plans import NotExecuted, Plan, Scale, draw, execute, plan_execution
from tantamount.ir.graph import Graph, Node, Ref
from tantamount.ir.job import Job
from tantamount.limits import Limits
from tantamount.proof import Options, prove
from tantamount.refinement.job import job_of, refine_job
from tantamount.samples.mutants.edits import NotAProgram, changed
from tantamount.samples.mutants.mistakes import Class, Mistake, mistakes
from tantamount.verdict import Verdict

__all__ = ["FAMILIES", "SHARED", "Case", "Program", "captured", "program_in", "read_cases", "write_cases"]

SHARED = deep.ROOT.parent / "shared" / "jobs"
_FORMAT = "mistakes/1"


@dataclass(frozen=True)
class Program:
    """A program by its name. ``source`` is a job's folder, or a function that calls ``tantamount.refine``."""

    name: str
    source: Path | Callable[[], object]


def _file(name: str) -> Program:
    return Program(name, SHARED / name)


def _example(name: str) -> Program:
    return Program(name, partial(deep.example, name))


def _deep(name: str, of: Callable[..., object], *given: Any) -> Program:
    return Program(name, partial(of, *given))


FAMILIES: dict[str, tuple[Program, ...]] = {
    "Megatron": (
        _file("gpt_tp2_l1"), _file("gpt_tp2_l2"), _file("gpt_tp4_l1"),
        Program("gpt_tp2", deep.ROOT / "examples" / "gpt_tp2"),
        _deep("megatron_core_l1", deep.megatron, 1), _deep("megatron_core_l4", deep.megatron, 4),
        _deep("megatron_core_l8", deep.megatron, 8),
    ),
    "transformers": (
        _file("hf_llama_tp2_train"), _deep("hf_qwen3_l1", deep.transformers, "qwen3", 1),
        _deep("hf_mixtral_l1", deep.transformers, "mixtral", 1), _deep("hf_gemma_l4", deep.transformers, "gemma", 4),
        _deep("hf_llama_l8", deep.transformers, "llama", 8),
    ),
    "torchtitan-like": (
        *map(_example, (
            "fsdp2_tensor_parallel", "training_step", "tensor_parallel", "sequence_parallel", "loss_parallel", "fsdp2",
            "hsdp", "data_parallel", "expert_parallel", "pipeline", "zero1",
        )),
        _deep("tensor_parallel_l4", deep.tensor_parallel, 4), _deep("tensor_parallel_l8", deep.tensor_parallel, 8),
        _deep("fsdp2_l8", deep.fully_sharded, 8),
    ),
    "JAX": (
        _example("jax_shard_map"), _example("jax_sharding"), _deep("jax_l2", deep.partitioned, 2),
        _deep("jax_l4", deep.partitioned, 4), _deep("jax_l8", deep.partitioned, 8),
    ),
    "vLLM": (
        _file("qwen2_tp2"), _deep("vllm_llama_l2", deep.vllm, "llama", 2),
        _deep("vllm_qwen2_l4", deep.vllm, "qwen2", 4), _deep("vllm_llama_l8", deep.vllm, "llama", 8),
    ),
    "HLO": (_file("llama_hlo_tp2_l1"), _file("llama_hlo_tp4_l1"), _file("llama_hlo_tp2_l4")),
}  # fmt: skip


# ------------------------------------------------------------------------------------------------ programs
def _own_half(job: Job) -> Job:
    """Rank 1 takes its own half of the logits' gradient."""
    return changed(job, frozenset([1]), "clone_11", lambda _, node: (replace(node, args=(Ref("getitem_5"),)),))


_REPAIRED: dict[str, Callable[[Job], Job]] = {"hf_llama_tp2_train": _own_half}  # captures that are wrong


def captured(program: Program) -> Job:
    """The job of a program. Raises ``ImportError`` where what it is made with is not installed, and
    ``FileNotFoundError``."""
    if isinstance(program.source, Path):
        if not program.source.exists():
            raise FileNotFoundError(program.source)
        job = read_job(program.source / "job.toml")
        return _REPAIRED.get(program.name, lambda one: one)(job)
    found: list[Job] = []

    def kept(*args: Any, **kwargs: Any) -> None:
        found.append(job_of(*args, **kwargs))

    before, tantamount.refine = tantamount.refine, kept
    try:
        program.source()
    finally:
        tantamount.refine = before
    return found[0]


def _write_program(folder: Path, program: Program) -> None:
    """The job and its graphs as files, unless they are there."""
    if folder.exists():
        return
    job = captured(program)
    folder.mkdir(parents=True)
    if program.name in _REPAIRED:
        document = tomllib.loads(Path(job.path).read_text())
        names = [document["spec"]["graph"], *document["impl"]["graphs"]]
        graphs = dict(zip(names, map(graph_document, (job.specification, *job.implementation)), strict=True))
    elif job.record is not None:
        document, graphs = job.record["job"], job.record["graphs"]
    else:
        shutil.copytree(Path(job.path).parent, folder, dirs_exist_ok=True, copy_function=shutil.copyfile)
        return
    for name, graph in graphs.items():
        write_document(folder / name, graph)
    (folder / "job.toml").write_text(tomli_w.dumps(document))


@lru_cache(maxsize=4)
def program_in(folder: Path, name: str) -> Job:
    """A program that is right, from a folder of cases."""
    return read_job(folder / "programs" / name / "job.toml", allow_outside=True)


# ------------------------------------------------------------------------------------------------ mistakes
@dataclass(frozen=True)
class Case:
    """A mistake in the ``number``-th place of a folder."""

    number: int
    family: str
    program: str
    mistake: Mistake


def write_cases(folder: Path, count: int, seed: int, families: Sequence[str]) -> None:
    """Programs and mistakes in a folder, as many of every family, and of every program of it, as of the others.
    Programs that it holds are not captured again.

    Mistakes that change no output on random inputs are left out; larger programs than can be executed have all."""
    documents: list[dict[str, Any]] = []
    for k, family in enumerate(families):
        quota = count // len(families) + (k < count % len(families))
        turns = [iter(_cases(folder, family, one, seed)) for one in FAMILIES[family] if _is_there(folder, family, one)]
        written: list[dict[str, Any]] = []
        while turns and len(written) < quota:
            for some in list(turns):
                found = next(some, None)
                if found is None:
                    turns.remove(some)
                elif len(written) < quota:
                    written.append(found)
        print(f"{family}: {len(written)} mistakes in {len({one['program'] for one in written})} programs", flush=True)
        documents += written
    random.Random(seed).shuffle(documents)
    if len(documents) < count:
        print(f"{len(documents)} cases, not {count}: there are no more", file=sys.stderr)
    text = {"format": _FORMAT, "seed": seed, "cases": documents}
    (folder / "cases.json").write_text(json.dumps(text, indent=1))


def read_cases(folder: Path) -> Iterator[Case]:
    """The cases of a folder, in their order."""
    document = json.loads((folder / "cases.json").read_text())
    if document.get("format") != _FORMAT:
        raise SystemExit(f"{folder} holds no cases of format {_FORMAT}")
    for number, one in enumerate(document["cases"]):
        job = partial(program_in, folder, one["program"])
        ranks, places = frozenset(one["ranks"]), frozenset(one["places"])
        build = partial(_built, job, one["node"], one["edits"])
        mistake = Mistake(Class[one["class"]], one["what"], one["node"], ranks, places, build)
        yield Case(number, one["family"], one["program"], mistake)


def _is_there(folder: Path, family: str, program: Program) -> bool:
    """True once the files of a program that is proved are there; else it says why they are not."""
    try:
        _write_program(folder / "programs" / program.name, program)
    except (ImportError, FileNotFoundError) as problem:
        print(f"{family}: {program.name} is left out: {problem}", file=sys.stderr)
        return False
    if refine_job(program_in(folder, program.name)).verdict is Verdict.PROVED:
        return True
    print(f"{family}: {program.name} is left out: it is not proved as it is", file=sys.stderr)
    return False


def _cases(folder: Path, family: str, program: Program, seed: int) -> Iterator[dict[str, Any]]:
    """The mistakes that make a valid job whose outputs are not the specification's on random inputs."""
    job = program_in(folder, program.name)
    plan = _plan(job)
    for one in mistakes(job, seed):
        try:
            wrong = one.build()
        except (NotAProgram, UserError):
            continue
        if plan is None or _differs(replace(plan, job=wrong)):
            yield _document(family, program.name, one, job, wrong)


def _plan(job: Job) -> Plan | None:
    sides = prove(job, Options(align=align, cut=True))  # forms of many layers may grow without
    try:
        return plan_execution(sides.store, job, sides.inputs, sides.specification, sides.implementation, Limits())
    except (NotExecuted, Unsupported):
        return None


def _differs(plan: Plan) -> bool:
    for seed, scale in enumerate((Scale(), Scale(0.1))):
        try:
            execution = execute(plan, draw(plan, seed, scale), seed)
        except NotExecuted:
            return False  # it waits for ever, for one: that is no wrong value
        claims = (output_claim(plan.job, name) for name in plan.job.outputs)
        if execution is None or any(examine(plan, claim, execution).difference is not None for claim in claims):
            return True
    return False


def _document(family: str, program: str, mistake: Mistake, job: Job, made: Job) -> dict[str, Any]:
    edits: dict[str, dict[str, Any]] = {}
    for rank in sorted(mistake.ranks):
        nodes = _nodes_document(_put_there(job.implementation[rank], made.implementation[rank], mistake.node))
        edits.setdefault(json.dumps(nodes), {"ranks": [], "nodes": nodes})["ranks"].append(rank)
    return {
        "family": family, "program": program, "class": mistake.kind.name, "what": mistake.what, "node": mistake.node,
        "ranks": sorted(mistake.ranks), "places": sorted(mistake.places), "edits": list(edits.values()),
    }  # fmt: skip


def _put_there(before: Graph, after: Graph, name: str) -> list[Node]:
    """The nodes that took the place of one: it, and those before it that were not there."""
    return [node for node in after.nodes if node.name == name or node.name not in before.by_name]


def _nodes_document(nodes: Iterable[Node]) -> list[dict[str, Any]]:
    return graph_document(Graph(tuple(nodes), (), {}, None, "", ""))["nodes"]


def _built(job: Callable[[], Job], name: str, edits: Sequence[Mapping[str, Any]]) -> Job:
    """The job with nodes in place of one, rank by rank."""
    made = job()
    for edit in edits:
        ranks = frozenset(edit["ranks"])
        nodes = _read_nodes(made.implementation[min(ranks)], edit["nodes"])
        made = changed(made, ranks, name, lambda graph, node, nodes=nodes: nodes)
    return made


def _read_nodes(graph: Graph, entries: Sequence[Mapping[str, Any]]) -> tuple[Node, ...]:
    """Nodes from their entries, which may read each other and those of ``graph``."""
    names = {str(entry["name"]) for entry in entries}
    read = [{"name": one, "op": "placeholder", "shape": [], "dtype": "float32"} for one in _read_in(entries) - names]
    document = {"format": "fx-nodes/1", "nodes": [*read, *entries], "outputs": []}
    return tuple(node for node in graph_of(document, graph.path, Limits()).nodes if node.name in names)


def _read_in(value: Any) -> set[str]:
    """The names of the nodes that are read somewhere in entries."""
    if isinstance(value, Mapping):
        own = {value["node"]} if set(value) == {"node"} else set[str]()
        return own.union(*map(_read_in, value.values()))
    if isinstance(value, list | tuple):
        return set[str]().union(*map(_read_in, value))
    return set()
