"""Training steps of equal layers, written out forward and backward: on one device, and under tensor, data and pipeline
parallelism with microbatches (1F1B), for tests and for the benchmark of growth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tantamount import read_job
from tantamount.ir.job import Job

from .graphs import write_job
from .jobs import as_json, graph_of

__all__ = ["Steps", "training_step", "training_step_files"]

Change = Callable[[str], str]  # what becomes of the text of a program
POINTWISE = 6  # functions of single elements in a row


@dataclass(frozen=True)
class Steps:
    """The sizes of a training step: layers of two matrices each, ``mb`` microbatches on every data-parallel rank.
    ``spec_mb``: the specification adds up the gradients of as many blocks as all ranks have, else of one."""

    layers: int = 2
    tp: int = 1
    dp: int = 1
    pp: int = 1
    mb: int = 1
    rows: int = 2
    width: int = 4
    spec_mb: bool = False
    adam: bool = False


@dataclass
class _Program:
    """The lines of one program, and the gradients that it has so far by parameter."""

    how: Steps
    local: int
    tp: int
    lines: list[str] = field(default_factory=list[str])
    grads: dict[str, str] = field(default_factory=dict[str, str])
    losses: list[str] = field(default_factory=list[str])

    def line(self, name: str, call: str) -> str:
        self.lines.append(f"{name} = {call}")
        return name

    def forward(self, k: int, x: str, tag: str) -> str:
        """Layer k of the rows that ``tag`` tells apart."""
        s = f"{k}_{tag}"
        self.line(f"u{s}", f"aten.sin.default({x})")
        self.line(f"h{s}", f"mm(u{s}, w{k})")
        self.line(f"a{s}", f"tanh(h{s})")
        y = self.line(f"y{s}", f"mm(a{s}, v{k})")
        if self.tp > 1:
            y = self.line(f"r{s}", f'all_reduce(y{s}, "sum", "tp")')
        for i in range(POINTWISE):
            self.line(f"e{i}_{s}", f"mul({y if i == 0 else f'f{i - 1}_{s}'}, 0.5)")
            self.line(f"f{i}_{s}", f"aten.sin.default(e{i}_{s})")
        return self.line(f"z{s}", f"add(f{POINTWISE - 1}_{s}, {x})")

    def backward(self, k: int, x: str, dz: str, tag: str) -> str:
        """The gradient of what the layer reads; those of its parameters are added to what there is."""
        s, d = f"{k}_{tag}", dz
        for i in reversed(range(POINTWISE)):
            self.line(f"ce{i}_{s}", f"aten.cos.default(e{i}_{s})")
            self.line(f"de{i}_{s}", f"mul({d}, ce{i}_{s})")
            d = self.line(f"df{i}_{s}", f"mul(de{i}_{s}, 0.5)")
        self.line(f"at{s}", f"t(a{s})")
        self.add(f"v{k}", self.line(f"dv{s}", f"mm(at{s}, {d})"), tag)
        self.line(f"vt{s}", f"t(v{k})")
        self.line(f"da{s}", f"mm({d}, vt{s})")
        self.line(f"aa{s}", f"mul(a{s}, a{s})")
        self.line(f"ra{s}", f"aten.rsub.Scalar(aa{s}, 1)")
        self.line(f"dh{s}", f"mul(da{s}, ra{s})")
        self.line(f"ut{s}", f"t(u{s})")
        self.add(f"w{k}", self.line(f"dw{s}", f"mm(ut{s}, dh{s})"), tag)
        self.line(f"wt{s}", f"t(w{k})")
        du = self.line(f"du{s}", f"mm(dh{s}, wt{s})")
        if self.tp > 1:
            du = self.line(f"dr{s}", f'all_reduce(du{s}, "sum", "tp")')
        self.line(f"cx{s}", f"aten.cos.default({x})")
        self.line(f"dx{s}", f"mul({du}, cx{s})")
        return self.line(f"dz{s}", f"add(dx{s}, {dz})")

    def add(self, parameter: str, grad: str, tag: str) -> None:
        before = self.grads.get(parameter)
        self.grads[parameter] = grad if before is None else self.line(f"g{parameter}_{tag}", f"add({before}, {grad})")

    def loss(self, x: str, tag: str) -> str:
        self.line(f"q{tag}", f"mul({x}, {x})")
        self.losses.append(self.line(f"l{tag}", f"sum(q{tag})"))
        return self.line(f"dl{tag}", f"mul({x}, 2)")

    def update(self, layers: range, dp: bool) -> list[str]:
        outputs: list[str] = []
        for k in layers:
            for p in (f"w{k}", f"v{k}"):
                g = self.grads[p]
                if dp:
                    g = self.line(f"all_{p}", f'all_reduce({g}, "sum", "dp")')
                if self.how.adam:
                    self.line(f"m1_{p}", f"mul(m_{p}, 0.9)")
                    self.line(f"m2_{p}", f"mul({g}, 0.1)")
                    self.line(f"m3_{p}", f"add(m1_{p}, m2_{p})")
                    self.line(f"s1_{p}", f"mul(s_{p}, 0.99)")
                    self.line(f"s2_{p}", f"mul({g}, {g})")
                    self.line(f"s3_{p}", f"mul(s2_{p}, 0.01)")
                    self.line(f"s4_{p}", f"add(s1_{p}, s3_{p})")
                    self.line(f"s5_{p}", f"aten.exp.default(s4_{p})")
                    g = self.line(f"s6_{p}", f"div(m3_{p}, s5_{p})")
                self.line(f"sc_{p}", f"mul({g}, 0.125)")
                outputs.append(f"new_{p}={self.line(f'nw_{p}', f'sub({p}, sc_{p})')}")
        return outputs

    def parameters(self, layers: range) -> list[str]:
        width = self.how.width
        out: list[str] = []
        for k in layers:
            shapes = {f"w{k}": f"[{width}, {self.local}]", f"v{k}": f"[{self.local}, {width}]"}
            for p, shape in shapes.items():
                out += [f"{p}: float32{shape}"]
                out += [f"m_{p}: float32{shape}", f"s_{p}: float32{shape}"] if self.how.adam else []
        return out

    def total(self) -> str:
        """The sum of the losses of all blocks."""
        total = self.losses[0]
        for k, more in enumerate(self.losses[1:]):
            total = self.line(f"total{k}", f"add({total}, {more})")
        return total


def _specification(how: Steps) -> str:
    blocks = how.dp * how.mb if how.spec_mb else 1
    program = _Program(how, 2 * how.tp, 1)
    rows = how.rows * how.dp * how.mb
    head = [f"x: float32[{rows}, {how.width}]", *program.parameters(range(how.layers))]
    names = _blocks(program, rows // blocks, blocks)
    for j, x in enumerate(names):
        held = [x]
        for k in range(how.layers):
            held.append(program.forward(k, held[-1], f"b{j}"))
        d = program.loss(held[-1], f"b{j}")
        for k in reversed(range(how.layers)):
            d = program.backward(k, held[k], d, f"b{j}")
    outputs = program.update(range(how.layers), False)
    total = program.total()
    return "\n".join([*head, *program.lines, f"-> loss={total}, {', '.join(outputs)}"])


def _blocks(program: _Program, rows: int, count: int) -> list[str]:
    if count == 1:
        return ["x"]
    program.line("blocks", f"aten.split.Tensor(x, {rows})")
    return [program.line(f"x_{j}", f"getitem(blocks, {j})") for j in range(count)]


def _order(stage: int, how: Steps) -> list[tuple[str, int]]:
    """1F1B: which pass of which microbatch a stage does, in order."""
    warm = min(how.pp - 1 - stage, how.mb)
    out = [("F", k) for k in range(warm)]
    for k in range(how.mb):
        if warm + k < how.mb:
            out.append(("F", warm + k))
        out.append(("B", k))
    return out


def _rank(stage: int, how: Steps) -> str:
    per = how.layers // how.pp
    layers = range(stage * per, (stage + 1) * per)
    first, last = stage == 0, stage == how.pp - 1
    program = _Program(how, 2, how.tp)
    head = [f"x: float32[{how.rows * how.mb}, {how.width}]", *program.parameters(layers)]
    names = _blocks(program, how.rows, how.mb)
    held: dict[int, list[str]] = {}

    def receive(name: str, peer: int) -> str:
        program.line(f"buffer_{name}", f"zeros([{how.rows}, {how.width}])")
        program.line(f"message_{name}", f'_c10d_functional.irecv.default(buffer_{name}, {peer}, 0, "pp")')
        return program.line(f"got_{name}", f"_c10d_functional.wait_tensor.default(message_{name})")

    def send(name: str, tensor: str, peer: int) -> None:
        program.line(f"sent_{name}", f'_c10d_functional.isend.default({tensor}, {peer}, 0, "pp")')

    for kind, j in _order(stage, how):
        tag = f"b{j}"
        if kind == "F":
            held[j] = [names[j] if first else receive(f"f{j}", stage - 1)]
            for k in layers:
                held[j].append(program.forward(k, held[j][-1], tag))
            if not last:
                send(f"f{j}", held[j][-1], stage + 1)
        else:
            d = program.loss(held[j][-1], tag) if last else receive(f"g{j}", stage + 1)
            for k in reversed(layers):
                d = program.backward(k, held[j][k - layers.start], d, tag)
            if not first:
                send(f"g{j}", d, stage - 1)
    outputs = program.update(layers, how.dp > 1)
    if last:
        total = program.total()
        if how.dp > 1:
            total = program.line("all_loss", f'all_reduce({total}, "sum", "dp")')
        outputs.append(f"loss={total}")
    return "\n".join([*head, *program.lines, f"-> {', '.join(outputs)}"])


def _same(text: str) -> str:
    return text


def training_step_files(folder: Path, how: Steps, *, rank: Change = _same, spec: Change = _same) -> Path:
    """The job file of a training step. ``rank`` and ``spec`` change the texts of programs."""
    folder.mkdir(exist_ok=True)
    mesh = {"dp": how.dp, "pp": how.pp, "tp": how.tp}
    graphs = {"spec.json": as_json(graph_of(spec(_specification(how))), None)}
    for stage in range(how.pp):
        graphs[f"stage{stage}.json"] = as_json(graph_of(rank(_rank(stage, how))), {**mesh})
    per = how.layers // how.pp
    names: list[tuple[str, int]] = []
    for k in range(how.layers):
        names += [(p, k // per) for p in (f"w{k}", f"v{k}")]
    lines, outputs = ['x = ["Shard(0)", "Replicate()", "Replicate()"]'], list[str]()
    for name, stage in names:
        held = [name, *([f"m_{name}", f"s_{name}"] if how.adam else [])]
        for one in held:
            lines.append(f"{one} = {_relation(one, name, stage, how)}")
        outputs.append(f"new_{name} = {_relation(f'new_{name}', name, stage, how)}")
    if how.pp == 1:
        outputs.append('loss = "Replicate()"')
    else:
        last = [_number(d, how.pp - 1, t, how) for d in range(how.dp) for t in range(how.tp)]
        outputs.append(f"loss = {_everywhere('loss', last)}")
    stages = [f"stage{(r // how.tp) % how.pp}.json" for r in range(how.dp * how.pp * how.tp)]
    groups = "\n".join(f'{axis} = ["{axis}"]' for axis in mesh)
    axes = ", ".join(f"{axis} = {size}" for axis, size in mesh.items())
    job = "\n".join([
        f'format = "job/1"\n[spec]\ngraph = "spec.json"\n[impl]\ngraphs = {stages}\nmesh = {{ {axes} }}',
        "[impl.groups]", groups, "[inputs]", *lines, "[outputs]", *outputs, "",
    ])  # fmt: skip
    return write_job(folder, job, graphs)


def _number(d: int, stage: int, t: int, how: Steps) -> int:
    return (d * how.pp + stage) * how.tp + t


def _everywhere(name: str, ranks: list[int]) -> str:
    terms = [f'rank({r}, \\"{name}\\")' for r in ranks]
    if len(terms) == 1:
        return f'"{terms[0]}"'
    return f'{{ relation = "{terms[0]}", equal = ["{" == ".join(terms)}"] }}'


def _relation(name: str, parameter: str, stage: int, how: Steps) -> str:
    dim = 1 if parameter[0] == "w" else 0
    if how.pp == 1:
        return f'["Replicate()", "Replicate()", "Shard({dim})"]'
    rows = [[f'rank({_number(d, stage, t, how)}, \\"{name}\\")' for t in range(how.tp)] for d in range(how.dp)]
    first = f"concat({', '.join(rows[0])}, dim={dim})" if how.tp > 1 else rows[0][0]
    if how.dp == 1:
        return f'"{first}"'
    equal = ", ".join(f'"{" == ".join(column)}"' for column in zip(*rows, strict=True))
    return f'{{ relation = "{first}", equal = [{equal}] }}'


def training_step(folder: Path, how: Steps, **changes: Change) -> Job:
    """The same job, read."""
    return read_job(training_step_files(folder, how, **changes))
