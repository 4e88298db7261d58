"""Errors for what fails in the user's program, in the user's terms."""

# pyright: basic
from __future__ import annotations

import linecache
import re
import traceback
from collections.abc import Mapping, Sequence

from torch import Tensor, fx, nn
from torch.nn.parameter import is_lazy

from tantamount.capture.torch.sources import is_user_file, shown_file, user_line
from tantamount.errors import EnvironmentFault, UserError, environment_fault

__all__ = [
    "check_modules", "check_quantised", "in_one_line", "line_of", "loader_problem", "not_captured", "other_shapes",
    "refused_ddp", "said", "unknown_parameter",
]  # fmt: skip


def said(problem: BaseException) -> str:
    """The type and the first line of an exception."""
    first = next(iter(str(problem).strip().splitlines()), "")
    return f"{type(problem).__name__}: {first}"[:400] if first else type(problem).__name__


def in_one_line(problem: BaseException) -> str:
    """The type and all lines of an exception, as one: libraries that check settings say on the second what is wrong."""
    text = " ".join(str(problem).split())
    return f"{type(problem).__name__}: {text[:400]}" if text else type(problem).__name__


def line_of(problem: BaseException) -> str:
    """The line of the user's code that raised it: `` (file:line `code`)``; empty if it was not there."""
    for frame in reversed(traceback.extract_tb(problem.__traceback__)):
        if is_user_file(frame.filename):
            line = (frame.line or linecache.getline(frame.filename, frame.lineno or 0)).strip()
            return f" ({shown_file(frame.filename)}:{frame.lineno} `{line}`)"
    return ""


_QUANTISED = re.compile(
    r"quantized nyi|int_repr|PackedParams|quantized::|QuantizedCPU|'aten::(q_|quantize_|dequantize)"
)


def refused_quantised(what: str, place: str) -> UserError:
    """The error that says that a program has tensors whose element type carries a scale."""
    return UserError(
        "capture-quantised", place=place,
        found=f"{what}: a tensor of quint8 or another type that carries a scale and a zero point",
        needed="plain integers, with the scale and the zero point written out",
        hint="torch.ops.quantized_decomposed.quantize_per_tensor(x, scale, zero_point, 0, 255, torch.uint8) and "
        "dequantize_per_tensor, as torch.export writes them; they are there after "
        "import torch.ao.quantization.fx._decomposed",
    )  # fmt: skip


def check_quantised(graph: fx.Graph, place: str) -> None:
    """Refuse what makes tensors whose element type carries a scale, and what takes them."""
    for node in graph.nodes:
        name = str(node.target)
        if name.startswith(("aten.quantize_per_", "aten.dequantize", "aten.int_repr", "quantized.")):
            raise refused_quantised(name, place)


def not_captured(problem: Exception, place: str) -> UserError | EnvironmentFault:
    """The error that says why a program could not be traced: the machine's, if that gave out."""
    fault = environment_fault(problem, place)
    if fault is not None:
        return fault
    text = str(problem)
    if _QUANTISED.search(text):
        return refused_quantised(said(problem).partition(":")[0], f"{place}{line_of(problem)}")
    needed, hint = "a program that runs on fake tensors", "run it with real tensors first; see docs/capture.md"
    if "_local_scalar_dense" in text or "DataDependent" in type(problem).__name__:
        needed = "a program whose course does not depend on the values of tensors"
        hint = "no .item(), float(tensor), print of a value or branch on one inside what is captured"
        if ".tolist()" in line_of(problem):
            hint += (
                ". Rows that are sent by counts of data: gather them on every rank, choose by a mask, and sum what "
                "comes back over the ranks; see docs/design/ragged-exchanges.md"
            )
    elif "HigherOrderOperator" in text:
        which = re.search(r"HigherOrderOperator (\w+)", text)
        return UserError(
            "capture", place=f"{place}{line_of(problem)}",
            found=f"torch's higher-order operator {which[1] if which else ''}, which holds programs of its own",
            needed="operators that a graph holds one by one",
            hint="torch.where for a choice between two values, a loop of Python for a scan; or capture the branches",
        )  # fmt: skip
    elif "data pointer" in text or "data_ptr" in text or "triton" in text.lower():
        return UserError(
            "capture", place=f"{place}{line_of(problem)}", found=said(problem),
            needed="PyTorch operators: a kernel that reads memory (Triton, CUDA) cannot be seen",
            hint="make an operator of it and say what that computes:\n"
            '    @torch.library.custom_op("mine::kernel", mutates_args=())\n'
            "    def kernel(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor: ...\n"
            "    kernel.register_fake(lambda x, w: torch.empty_like(x))\n"
            '    tt.definition("mine.kernel.default", "x, w", "silu(x) * w")  # in operators that are known, or\n'
            '    tt.opaque("mine.kernel.default", "t [d], [d] -> t [d]")  # which dimensions it works along',
        )  # fmt: skip
    elif "ScriptModule" in text or "torch.jit" in text:
        needed, hint = "the module before torch.jit.script or torch.jit.trace", "capture that"
    elif ".numpy()" in text:
        needed, hint = "PyTorch operators only", "what NumPy computes cannot be seen"
    elif "which requires redistribution" in text:
        hint = "a DTensor operation that PyTorch cannot shard: are the heads divided by the ranks, does the mesh fit?"
    return UserError("capture", place=f"{place}{line_of(problem)}", found=said(problem), needed=needed, hint=hint)


def check_modules(modules: Mapping[str, nn.Module]) -> None:
    """Refuse wrappers whose communication happens in C++, where a capture sees nothing."""
    for prefix, root in modules.items():
        lazy = [n for n, x in [*root.named_parameters(), *root.named_buffers()] if is_lazy(x)]
        if lazy:
            raise UserError(
                "capture-state", place=f"{prefix}{lazy[0]}",
                found=f"a parameter of {type(root).__name__} that has no shape yet",
                needed="a module that has run once", hint="call it with an example input before the capture",
            )  # fmt: skip
        for name, module in root.named_modules():
            if isinstance(module, nn.parallel.DistributedDataParallel):
                raise refused_ddp(f"{prefix}{name}" or type(module).__name__)


def refused_ddp(place: str) -> UserError:
    """The error that says that a module is wrapped by ``DistributedDataParallel``."""
    return UserError(
        "capture-ddp", place=place,
        found="DistributedDataParallel, which reduces gradients in C++, hooks included, out of sight of a capture",
        needed="the module inside it, with its gradients averaged by the step itself, or by hooks of its parameters",
        hint="after backward(): dist.all_reduce(p.grad, op=dist.ReduceOp.AVG) for every p in "
        "ddp.module.parameters(); or fully_shard; see examples/data_parallel.py and examples/gradient_hooks.py",
    )  # fmt: skip


def unknown_parameter(parameter: Tensor) -> UserError:
    """The error that says that a program uses a parameter which the capture was not told of: its values would become
    part of the program, and its gradient would be lost."""
    return UserError(
        "capture-parameter", place=user_line(),
        found=f"a parameter {list(parameter.shape)} of no known module, or another tensor that requires a gradient",
        needed="the modules that the function uses",
        hint='capture(f, args, modules={"": model}); from build: return f, args, {"modules": model}',
    )  # fmt: skip


def loader_problem(side: str, problem: Exception, needed: str) -> UserError:
    """The error that says that the loader of one of two compared programs has raised something."""
    return UserError(
        "compare-loader", place=f"the loader of the {side} program{line_of(problem)}",
        found=in_one_line(problem), needed=needed,
        hint="it is run on numbered checkpoints in float64, of the names and shapes that `checkpoint` has",
    )  # fmt: skip


def other_shapes(side: str, own: Mapping[str, Sequence[int]], given: Mapping[str, Sequence[int]]) -> UserError | None:
    """The error that says that tensors of a checkpoint have other shapes than those of their names in a model that has
    no loader but its state dict; ``None`` if none has."""
    found = [name for name in own if name in given and tuple(own[name]) != tuple(given[name])]
    if not found:
        return None
    name = found[0]
    more = f"; {len(found) - 1} more tensors have other shapes, too" if len(found) > 1 else ""
    return UserError(
        "compare-loader", place=f"the {side} program, which is filled from its own state dict: {name}",
        found=f"shape {list(own[name])} in the model, {list(given[name])} in the checkpoint{more}",
        needed="one shape",
        hint="build both models at the same sizes, or give a loader that makes the one shape of the other",
    )  # fmt: skip
