"""Jobs with operators that their [ops] table declares, or a Python file: from files to verdicts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.graphs import call, graph, placeholder, ref, returns, write_job
from tantamount import read_job
from tantamount.answers import refine
from tantamount.errors import UserError
from tantamount.verdict import Report, Verdict

KERNEL = '"mylib.attend.default" = { labels = "[t] (g r) [d], [t] g [d] -> [t] (g r) [d]", args = "q, k, scale=1.0" }'
CAP = '"mylib.softcap.default" = { args = "x, cap=50", is = "cap * tanh(x / cap)" }'
MIXED = '"mylib.mixed.default" = { args = "out, x, y", is = "(x * y, x + y)", mutates = ["out"] }'
PARTIAL = '"mylib.gemm.default" = { labels = "m +k, +k n -> m n" }'


def job(folder: Path, ops: str, shapes: Any, nodes: Any, *, inputs: str, output: str, ranks: int = 2) -> Path:
    """``shapes(n)``: the inputs, ``nodes(n)``: the calls of a rank that has one n-th; the specification has n = 1."""

    def program(n: int) -> Any:
        calls: Sequence[Any] = nodes(n)
        given = [placeholder(name, shape) for name, shape in shapes(n).items()]
        return graph(*given, *calls, returns(ref(calls[-1]["name"])))

    text = f'format = "job/1"\n[spec]\ngraph = "spec.json"\n[impl]\ngraph = "rank.json"\nmesh = {{ tp = {ranks} }}\n'
    tables = f"[inputs]\n{inputs}\n[outputs]\ny = '{output}'\n[ops]\n{ops}\n"
    return write_job(folder, text + tables, {"spec.json": program(1), "rank.json": program(ranks)})


def attention(folder: Path, ops: str = KERNEL, *, scale: float = 1.0, q: str = "Shard(1)", k: str = "Shard(1)") -> Path:
    return job(
        folder,
        ops,
        lambda n: {"q": (3, 4 // n, 2), "k": (3, 2 // n, 2)},
        lambda n: [
            call("y", "mylib.attend.default", [ref("q"), ref("k"), scale if n > 1 else 1.0], shape=(3, 4 // n, 2))
        ],
        inputs=f'q = "{q}"\nk = "{k}"',
        output="Shard(1)",
    )


def proved(path: Path) -> Report:
    report = refine(read_job(path))
    assert report.verdict is Verdict.PROVED, [output.reason for output in report.outputs]
    return report


def test_an_opaque_operator(tmp_path: Path) -> None:
    report = proved(attention(tmp_path))
    (assumption,) = (a for a in report.assumptions if a.name == "opaque-operator")
    assert "mylib.attend.default" in assumption.text
    assert "[t] (g r) [d]" in assumption.text
    assert assumption.places == ("y",)


@pytest.mark.parametrize("fold", [True, False])
def test_an_attribute_is_part_of_the_function(tmp_path: Path, fold: bool) -> None:
    path = attention(tmp_path, scale=2.0)
    report = refine(read_job(path), fold=fold)
    assert report.verdict is Verdict.REFUTED
    assert any("stands in" in a.text for a in report.assumptions)
    assert report.mismatch is not None
    assert report.mismatch.implementation_operator == "mylib.attend.default"
    assert "has 2 in attend where 1 is needed" in report.mismatch.headline
    proved(attention(tmp_path, KERNEL.replace(" }", ', ignores = ["scale"] }'), scale=2.0))


def test_heads_of_the_wrong_group(tmp_path: Path) -> None:
    path = attention(tmp_path)
    text = path.read_text().replace('k = "Shard(1)"', 'k = "concat(rank(1), rank(0), dim=1)"')
    path.write_text(text)
    assert refine(read_job(path)).verdict is Verdict.REFUTED


def test_a_bound_dimension_cannot_be_sharded(tmp_path: Path) -> None:
    path = job(
        tmp_path,
        '"mylib.norm.default" = { labels = "t [d] -> t [d]" }',
        lambda n: {"x": (3, 4 // n)},
        lambda n: [call("y", "mylib.norm.default", [ref("x")], shape=(3, 4 // n))],
        inputs='x = "Shard(1)"',
        output="Shard(1)",
    )
    assert refine(read_job(path)).verdict is Verdict.REFUTED


def test_a_summed_label_gives_partial_sums(tmp_path: Path) -> None:
    path = job(
        tmp_path,
        PARTIAL,
        lambda n: {"x": (3, 4 // n), "w": (4 // n, 5)},
        lambda n: [call("y", "mylib.gemm.default", [ref("x"), ref("w")], shape=(3, 5))],
        inputs='x = "Shard(1)"\nw = "Shard(0)"',
        output='Partial("sum")',
    )
    proved(path)


def capped(folder: Path, ops: str, cap: float) -> Path:
    """The specification calls the kernel, the ranks write it out."""
    kernel = call("y", "mylib.softcap.default", [ref("x"), 30], shape=(4,))
    spec = graph(placeholder("x", (4,)), kernel, returns(ref("y")))
    rank = graph(
        placeholder("x", (2,)),
        call("a", "aten.div.Tensor", [ref("x"), cap], shape=(2,)),
        call("b", "aten.tanh.default", [ref("a")], shape=(2,)),
        call("y", "aten.mul.Tensor", [ref("b"), cap], shape=(2,)),
        returns(ref("y")),
    )
    text = 'format = "job/1"\n[spec]\ngraph = "spec.json"\n[impl]\ngraph = "rank.json"\nmesh = { tp = 2 }\n'
    tables = f"[inputs]\nx = 'Shard(0)'\n[outputs]\ny = 'Shard(0)'\n[ops]\n{ops}\n"
    return write_job(folder, text + tables, {"spec.json": spec, "rank.json": rank})


def test_a_definition_in_known_operators(tmp_path: Path) -> None:
    report = proved(capped(tmp_path, CAP, 30))
    (assumption,) = (a for a in report.assumptions if a.name == "operator")
    assert assumption.text == "mylib.softcap.default is 'cap * tanh(x / cap)' of (x, cap=50)"
    assert refine(read_job(capped(tmp_path, CAP, 31))).verdict is Verdict.REFUTED
    assert refine(read_job(capped(tmp_path, CAP, 30)), strict=True).verdict is Verdict.UNKNOWN


def test_a_definition_that_overwrites(tmp_path: Path) -> None:
    path = job(
        tmp_path,
        MIXED,
        lambda n: {"x": (4 // n,), "z": (4 // n,)},
        lambda n: [
            call("f", "auto_functionalized", ["mylib.mixed.default"], shape=None, out=ref("z"), x=ref("x"), y=ref("x")),
            call("p", "getitem", [ref("f"), 0], shape=(4 // n,)),
            call("s", "getitem", [ref("f"), 1], shape=(4 // n,)),
            call("y", "aten.mul.Tensor", [ref("p"), ref("s")], shape=(4 // n,)),
        ],
        inputs='default = "Shard(0)"',
        output="Shard(0)",
    )
    proved(path)


def test_what_a_job_does_not_declare_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        read_job(attention(tmp_path, CAP))
    assert caught.value.code == "operator-unknown"
    proved(attention(tmp_path))  # and what one job declares, others do not have
    with pytest.raises(UserError):
        read_job(attention(tmp_path, CAP))


def test_operands_that_do_not_fit_the_labels(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="labelled dimensions"):
        read_job(attention(tmp_path, KERNEL.replace("[t] (g r) [d],", "(g r) [d],")))


def test_a_python_file_of_operators(tmp_path: Path) -> None:
    path = capped(tmp_path, "", 30)
    source = tmp_path / "mine.py"
    source.write_text(
        "from __future__ import annotations\n"
        "import tantamount\n"
        "from tantamount.ops.algebra import Tensor\n"
        "@tantamount.operator('mylib.softcap.default')\n"
        "def softcap(b, self: Tensor, cap: float = 50.0) -> Tensor:\n"
        "    limit = b.number(cap, self.dtype)\n"
        "    return b.mul(b.function('tanh', b.div(self, limit)), limit)\n"
    )

    def command(*arguments: str) -> Any:
        return subprocess.run(
            [sys.executable, "-m", "tantamount", *arguments], capture_output=True, text=True, check=False
        )

    done = command("refine", str(path), "--operators", str(source), "--json", "-")
    assert done.returncode == 0, done.stderr
    (entry,) = json.loads(done.stdout)["jobs"]
    assert any("mylib.softcap.default" in a["text"] for a in entry["assumptions"])
    done = command("refine", str(path), "--operators", str(source))
    assert "operator" in done.stdout.partition("Assumptions")[2]
    done = command("refine", str(path), str(path), "--operators", str(source))  # in processes of their own
    assert "\n2 jobs: 2 PROVED (exit code 0)\n" in done.stdout, done.stderr
    assert command("refine", str(path)).returncode == 2
    assert "softcap" in command("ops", "mylib.softcap.default", "--operators", str(source)).stdout
    source.write_text("1 / 0")
    done = command("refine", str(path), "--operators", str(source))
    assert done.returncode == 2
    assert "ZeroDivisionError" in done.stderr


def test_the_declarations_of_the_documentation(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "jobs.md").read_text()
    blocks = re.findall(r"^```toml\n(\[ops\]\n.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        path = attention(tmp_path, "")
        text = path.read_text().replace("[ops]\n", block)
        path.write_text(text.replace("mylib.attend.default", "mylib.attend.other"))
        with pytest.raises(UserError) as caught:  # all is read; the graph's own operator is not there
            read_job(path)
        assert caught.value.code == "operator-unknown"
