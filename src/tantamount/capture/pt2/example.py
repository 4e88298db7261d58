"""The small program that every format can say, as ``torch.export.save`` lays it out."""

from __future__ import annotations

import io
import json
from functools import cache
from zipfile import ZipFile, ZipInfo

__all__ = ["example"]

_TYPE = {
    "dtype": 7, "sizes": [{"as_int": 2}, {"as_int": 3}], "strides": [{"as_int": 3}, {"as_int": 1}],
    "storage_offset": {"as_int": 0}, "layout": 7,
}  # fmt: skip


def _tensor(name: str) -> dict[str, object]:
    return {"as_tensor": {"name": name}}


def _call(operator: str, other: str, result: str) -> dict[str, object]:
    inputs = [
        {"name": name, "arg": _tensor(tensor), "kind": 1} for name, tensor in (("self", other), ("other", "alpha"))
    ]
    return {"target": f"torch.ops.aten.{operator}.Tensor", "inputs": inputs, "outputs": [_tensor(result)]}


@cache
def example() -> str:
    """``second = (alpha + alpha) * alpha``, one character for every byte."""
    graph = {
        "inputs": [_tensor("alpha")],
        "outputs": [_tensor("second")],
        "nodes": [_call("add", "alpha", "first"), _call("mul", "first", "second")],
        "tensor_values": dict.fromkeys(("alpha", "first", "second"), _TYPE),
    }
    arguments = [{"user_input": {"arg": _tensor("alpha")}}], [{"user_output": {"arg": _tensor("second")}}]
    signature = dict(zip(("input_specs", "output_specs"), arguments, strict=True))
    model = {"graph_module": {"graph": graph, "signature": signature}, "schema_version": {"major": 8}}
    members = {"archive_format": "pt2", "archive_version": "0", "byteorder": "little"}
    members |= {f"data/{kind}/m_{kind}_config.json": '{"config": {}}' for kind in ("weights", "constants")}
    members["models/m.json"] = json.dumps(model)
    data = io.BytesIO()
    with ZipFile(data, "w") as archive:
        for name, text in members.items():
            archive.writestr(ZipInfo(f"m/{name}"), text)
    return data.getvalue().decode("latin-1")
