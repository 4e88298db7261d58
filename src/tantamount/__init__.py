"""Tantamount proves that two tensor programs compute the same thing, or shows where they stop doing so.

The public interface, loaded on first use: :func:`capture`, :func:`capture_ranks`, :func:`capture_jax`,
:func:`capture_jax_ranks`, :func:`capture_megatron`, :func:`refine`, :func:`compare`, :func:`verify_plan`,
:func:`plan_of_megatron`, :func:`plan_of_schedule`, :func:`plan_of_torchtitan`, :func:`save_job`, :func:`read_job`,
:class:`Report`, :class:`Verdict`, :class:`NotProved`, :class:`UserError`; and to declare operators :func:`opaque`,
:func:`definition`, :func:`operator`, and rules :func:`rule`.
Importing this package imports neither PyTorch nor JAX nor the command line's libraries.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers read it; `typing` takes longer to import than all that is here
if TYPE_CHECKING:
    from typing import Any

    from tantamount.answers import NotProved, compare, refine, verify_plan
    from tantamount.capture.jax import capture_jax, capture_jax_ranks
    from tantamount.capture.jax_models import JaxModel
    from tantamount.capture.job import read_job
    from tantamount.capture.programs import save_job
    from tantamount.capture.torch.megatron import capture_megatron
    from tantamount.capture.torch.megatron.plan import plan_of_megatron
    from tantamount.capture.torch.pipelining import plan_of_schedule
    from tantamount.capture.torch.programs import capture, capture_ranks
    from tantamount.capture.torch.rules import rule
    from tantamount.capture.torch.titan import plan_of_torchtitan
    from tantamount.errors import UserError
    from tantamount.ops.declare import definition, opaque, operator
    from tantamount.verdict import Report, Verdict

__all__ = [
    "JaxModel", "NotProved", "Report", "UserError", "Verdict", "__version__", "capture",
    "capture_jax", "capture_jax_ranks",
    "capture_megatron", "capture_ranks", "compare", "definition", "opaque", "operator", "read_job", "refine", "rule",
    "plan_of_megatron", "plan_of_schedule", "plan_of_torchtitan", "save_job", "verify_plan",
]  # fmt: skip

__version__ = "0.1.0"

_HOME = {
    "JaxModel": "tantamount.capture.jax_models",
    "Report": "tantamount.verdict",
    "UserError": "tantamount.errors",
    "Verdict": "tantamount.verdict",
    "NotProved": "tantamount.answers",
    "capture": "tantamount.capture",
    "capture_jax": "tantamount.capture",
    "capture_jax_ranks": "tantamount.capture",
    "capture_megatron": "tantamount.capture",
    "capture_ranks": "tantamount.capture",
    "compare": "tantamount.answers",
    "definition": "tantamount.ops.declare",
    "opaque": "tantamount.ops.declare",
    "operator": "tantamount.ops.declare",
    "plan_of_megatron": "tantamount.capture",
    "plan_of_schedule": "tantamount.capture",
    "plan_of_torchtitan": "tantamount.capture",
    "read_job": "tantamount.capture.job",
    "refine": "tantamount.answers",
    "rule": "tantamount.capture",
    "save_job": "tantamount.capture.programs",
    "verify_plan": "tantamount.answers",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(home)
    return module if home == f"{__name__}.{name}" else getattr(module, name)  # tantamount.capture can be called itself


def __dir__() -> list[str]:
    return sorted(__all__)
