"""Models by names whose packages are absent, or that are no models: what is said."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tantamount.errors import UserError

pytest.importorskip("torch", reason="models of PyTorch")
from tantamount.capture.torch.recipes import built

PACKAGES = {
    "megatron:llama": ("megatron", "megatron-core and transformers"),
    "vllm:llama": ("vllm", "vLLM's build for CPUs and transformers"),
    "litgpt:Llama-3-8B": ("litgpt", "litgpt"),
    "timm:vit_tiny_patch16_224": ("timm", "timm"),
}


@pytest.mark.parametrize("name", PACKAGES)
def test_an_absent_package_is_named(name: str) -> None:
    package, needed = PACKAGES[name]
    if find_spec(package) is not None:
        pytest.skip(f"{package} is installed")
    with pytest.raises(UserError) as caught:
        built(name)
    assert caught.value.code == "compare-recipe"
    assert caught.value.needed.endswith(f"needs, {needed}")
    assert package in caught.value.found


def test_a_function_of_jax_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jax", reason="with a program of JAX")
    (tmp_path / "two_of_jax.py").write_text(
        "import numpy as np\n"
        "def model():\n"
        "    return (lambda params, x: x @ params['w']), {'w': np.zeros((2, 3))}, (np.zeros((4, 2)),), {'load': None}\n"
        "def other():\n"
        "    return 7\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    found = built("jax:two_of_jax:model")
    assert found.stated
    assert found.model.state_shapes() == {"params.w": (2, 3)}
    for name in ("jax:two_of_jax:other", "jax:two_of_jax"):
        with pytest.raises(UserError, match="jax:MODULE:FUNCTION"):
            built(name)
