"""Small files that took all memory, minutes, or the message "a bug of Tantamount"; each is refused, quickly."""

from __future__ import annotations

import gzip
import time
from pathlib import Path
from typing import Any

import pytest

from support.graphs import call, graph, placeholder, ref, returns, write, write_job
from support.odd_arguments import Call, problem_of
from tantamount.capture.files import read_text
from tantamount.capture.job import read_job
from tantamount.capture.readers import read_graph
from tantamount.errors import UserError
from tantamount.ir.types import DType
from tantamount.limits import Limits
from tantamount.ops.algebra import Tensor
from tantamount.ops.check import check_graph

INF = float("inf")


def code(function: Any, *arguments: Any) -> str:
    started = time.process_time()
    with pytest.raises(UserError) as raised:
        function(*arguments)
    assert time.process_time() - started < 10
    assert len(str(raised.value)) < 10_000
    return raised.value.code


def test_keys_of_a_hundred_thousand_parts(tmp_path: Path) -> None:
    for text in (
        ".".join("a" * 100_000) + " = 1",
        "[" + ".".join("a" * 100_000) + "]",
        "x = {" + " . ".join("a" * 50_000) + "= 1}",
    ):
        assert code(read_job, write(tmp_path / "job.toml", text)) == "limit-nesting"


def test_strings_and_comments_have_no_keys(tmp_path: Path) -> None:
    dots = "a." * 200
    text = f'# {dots}\nx = "{dots}" # {dots}\ny = \'\'\'\n{dots}\'\'\'\nz = """\\"""{dots}"""\n'
    assert code(read_job, write(tmp_path / "job.toml", text)) == "job-unknown-key"


@pytest.mark.parametrize(
    "text", ['"' + '\\"' * 200_000, "'''" + "'" * 400_000, '"""' * 100_001, "a" * 500_000, "a.b=1\n" * 100]
)
def test_toml_that_is_no_toml_is_read_once(tmp_path: Path, text: str) -> None:
    assert code(read_job, write(tmp_path / "job.toml", text)) == "job-toml"


def test_gzip_that_grows_a_thousand_times(tmp_path: Path) -> None:
    path = tmp_path / "g.json.gz"
    path.write_bytes(gzip.compress(b"[" + b"0," * (1 << 20)) * 100)
    assert path.stat().st_size < 300_000
    assert code(read_graph, path) == "limit-decompressed-bytes"
    assert code(read_text, path, Limits(decompressed_bytes=1000)) == "limit-decompressed-bytes"


def test_more_values_than_memory_has_room_for(tmp_path: Path) -> None:
    assert code(read_graph, write(tmp_path / "g.json", "[" + '{"":0},' * 3_000_000)) == "limit-values"


def test_a_mesh_whose_size_has_more_digits_than_python_prints(tmp_path: Path) -> None:
    axes = ", ".join(f"a{k} = 2147483648" for k in range(500))
    job = f'format = "job/1"\n[spec]\ngraph = "g.json"\n[impl]\ngraph = "g.json"\nmesh = {{ {axes} }}\n'
    assert code(read_job, write_job(tmp_path, job, {"g.json": graph()})) == "limit-ranks"


def test_messages_echo_no_more_than_can_be_read(tmp_path: Path) -> None:
    long = "x" * 60_000
    broken = graph(placeholder(long), call("y", long, [ref(long)]), returns(ref("y")))
    assert code(check_graph, read_graph(write(tmp_path / "g.json", broken)), None) == "operator-unknown"
    error = UserError("a-b", place=long, found=long, needed="y" * 900_000, hint=long)
    assert len(str(error)) < 10_000
    assert len(str(error.within(long))) < 10_000


@pytest.mark.parametrize(
    ("target", "args"),
    [
        ("aten.arange.default", (INF,)),
        ("aten.arange.start_step", (0, 10, INF)),
        ("aten.linspace.default", (0.0, INF, 3)),
        ("aten.xlogy_.Scalar_Self", (2, Tensor((3,), DType.FLOAT32, None))),
        ("aten.xlogy_.Tensor", (2, Tensor((3,), DType.FLOAT32, None))),
        ("aten.bitwise_left_shift_.Tensor", (2, Tensor((3,), DType.INT64, None))),
        ("aten.repeat_interleave.Tensor", (Tensor((2, 2, 2, 2), DType.INT64, None),)),
        ("aten.repeat_interleave.self_Tensor", (Tensor((), DType.FLOAT32, None), Tensor((3,), DType.INT64, None), 0)),
        ("aten.split.Tensor", (Tensor((1 << 40,), DType.FLOAT32, None), 1)),
        ("aten.unbind.int", (Tensor((1 << 40,), DType.FLOAT32, None),)),
        ("aten.tensor_split.sections", (Tensor((7,), DType.FLOAT32, None), 1 << 62)),
        ("aten.avg_pool1d.default", (Tensor((1, 3, 1 << 40), DType.FLOAT32, None), (2,))),
    ],
)
def test_operators_refuse_what_has_no_end(target: str, args: tuple[Any, ...]) -> None:
    started = time.process_time()
    assert problem_of(Call(target, args, {})) is None
    assert time.process_time() - started < 5


def test_results_have_the_limits_of_files(tmp_path: Path) -> None:
    twice = [call(f"y{k}", "aten.repeat.default", [ref(f"y{k - 1}"), [1 << 62]], None) for k in range(1, 300)]
    path = write(tmp_path / "g.json", graph(placeholder("y0", (2,)), *twice, returns(ref("y299"))))
    assert code(check_graph, read_graph(path), None) == "limit-dimension-size"


@pytest.mark.parametrize(
    "target", ["aten.rand.default", "aten.randn.default", "aten.empty.memory_format", "aten.zeros.default"]
)
def test_sizes_below_nothing(tmp_path: Path, target: str) -> None:
    path = write(tmp_path / "g.json", graph(call("y", target, [[2, -1]], None), returns(ref("y"))))
    assert code(check_graph, read_graph(path), None) == "operator-types"


def test_numbers_of_a_hundred_thousand_digits(tmp_path: Path) -> None:
    assert code(read_job, write(tmp_path / "job.toml", "format = 0x" + "f" * 100_000)) == "job-missing-key"
    text = f"format = 0x{'f' * 100_000}\nspec = 1\nimpl = 1"
    assert code(read_job, write(tmp_path / "job.toml", text)) == "job-format"
