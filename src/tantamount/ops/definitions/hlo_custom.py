"""Custom calls in HLO whose meaning is public: those of AWS Neuron (transformers-neuronx, `hlo.py`)."""

from __future__ import annotations

from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.norm import rms_norm_of
from tantamount.ops.table import operator

_HLO = "hlo"


@operator("hlo.custom-call.AwsNeuronTransferWithStaticRing", category=_HLO)
def transfer_with_static_ring(b: Builder, operand: Tensor) -> Tensor:
    """operand: it says how a weight reaches the device"""
    return operand


@operator("hlo.custom-call.AwsNeuronRmsNorm", category=_HLO)
def neuron_rms_norm(b: Builder, operand: Tensor, weight: Tensor, eps: Tensor, *, backend_config: str) -> Tensor:
    """operand / sqrt(mean(operand^2) + eps) * weight, along the dimension that backend_config numbers"""
    if not (backend_config.isascii() and backend_config.isdigit()) or int(backend_config[:9]) >= operand.rank:
        raise ShapeProblem(f"backend_config {backend_config!r} of {operand.type}, where a dimension's number is needed")
    if eps.rank or not eps.dtype.is_float:
        raise ShapeProblem(f"an eps {eps.type}, which is not a single number")
    k = int(backend_config)
    order = [*(j for j in range(operand.rank) if j != k), k]
    normal, _ = rms_norm_of(b, b.permute(operand, order), (operand.shape[k],), weight, eps)
    # The recorded type is that of the tensor before it was widened for the statistics: b.default.
    return b.cast(b.permute(normal, sorted(range(operand.rank), key=order.__getitem__)), b.default)
