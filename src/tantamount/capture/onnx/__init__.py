"""Reading ONNX models (``.onnx``) into graphs, without the ``onnx`` package.

``wire`` decodes the bytes of a protobuf message, ``model`` reads the messages of ONNX as plain data, ``tensors`` the
numbers of a tensor, in the file or beside it; ``rows`` says what every operator is in operators of the table
(``pointwise``, ``layout``, ``networks``; ``given`` is what a row sees), ``read`` puts a graph together. Nothing is
executed but arithmetic on shapes.
"""

from tantamount.capture.onnx.read import parse_onnx

__all__ = ["parse_onnx"]
