"""A row for every ONNX operator: a function from a node to its results, in operators of the table.

A row asks for every attribute that it understands; one that nobody asked for is refused afterwards. Numbers that decide
shapes (axes, sizes, pads) must be known while reading.
"""

from __future__ import annotations

from collections.abc import Mapping

from tantamount.capture.onnx.given import Row
from tantamount.capture.onnx.layout import ROWS as LAYOUT
from tantamount.capture.onnx.networks import ROWS as NETWORKS
from tantamount.capture.onnx.pointwise import ROWS as POINTWISE

__all__ = ["ROWS"]

ROWS: Mapping[str, Row] = {**POINTWISE, **LAYOUT, **NETWORKS}
