"""Image models that torchvision, timm and transformers have each written: equal, or the operator where they part."""

from __future__ import annotations

import pytest

import tantamount as tt

pytest.importorskip("torch", reason="captures need PyTorch")
from support.torchvision_alone import import_models

try:
    import_models()
except ImportError:
    pytest.skip("torchvision is not installed (torchvision==0.28.0)", allow_module_level=True)

pytest.importorskip("timm", reason="timm is not installed (pip install timm)")
pytest.importorskip("transformers", reason="transformers is not installed (pip install 'tantamount[models]')")

from support.image_models import PAIRS


@pytest.mark.parametrize("name", PAIRS)
def test_models_that_were_written_twice(name: str) -> None:
    first, second, truth, said = PAIRS[name]
    (one, inputs, how), (other, others, conversion) = first(), second()
    found = tt.compare(
        one.eval(), other.eval(), inputs=[inputs, others], loaders=(how["load"], conversion["load"])
    )  # fmt: skip
    assert found.verdict.value == truth, str(found)
    assert said in str(found)
    assert {one.name for one in found.assumptions} <= {
        "real-arithmetic", "loaders", "rounded-literals", "index-range", "operator",
    }  # fmt: skip
