"""Image models of torchvision, timm and transformers at small sizes, and what fills one from the other's checkpoint.

Each function is an entry point as ``tantamount compare MODULE:FUNCTION`` takes it, of a model that is written anew in
two or three packages. Checkpoints are those of timm (ViT, ConvNeXt, Swin), transformers (``*_of_transformers``) or
torchvision (ResNet).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Union

import torch
from torch import Tensor, nn

__all__ = ["PAIRS"]

_IMAGE = (torch.zeros(1, 3, 32, 32),)
_TRANSFORMERS = {"pixel_values": _IMAGE[0]}

Rule = tuple[str, Union[str, Callable[[re.Match[str]], str]]]  # a pattern in a name, and what stands there instead
Entry = tuple[nn.Module, Any, dict[str, Any]]


def _renamed(tensors: Mapping[str, Tensor], rules: Sequence[Rule]) -> dict[str, Tensor]:
    out: dict[str, Tensor] = {}
    for name, value in tensors.items():
        for pattern, new in rules:
            name = re.sub(pattern, new, name)
        out[name] = value
    return out


def _loader(rules: Sequence[Rule], prepared: Callable[..., Mapping[str, Tensor]] = dict) -> Callable[..., None]:
    """A loader that renames tensors, and gives them the shapes that the model has for them; buffers that no checkpoint
    has stay as they are."""

    def load(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
        own = model.state_dict()
        state = {name: value.reshape(own[name].shape) for name, value in _renamed(prepared(tensors), rules).items()}
        left = {name: value for name, value in own.items() if name.endswith("relative_position_index")}
        model.load_state_dict({**left, **state})

    return load


# ---------------------------------------------------------------------------------------------- vision transformer
_VIT: Sequence[Rule] = (
    (r"^cls_token", "class_token"), (r"^pos_embed", "encoder.pos_embedding"), (r"^patch_embed\.proj", "conv_proj"),
    (r"^blocks\.(\d+)\.", r"encoder.layers.encoder_layer_\1."), (r"norm1", "ln_1"), (r"norm2", "ln_2"),
    (r"attn\.qkv\.(\w+)", r"self_attention.in_proj_\1"), (r"attn\.proj", "self_attention.out_proj"),
    (r"mlp\.fc1", "mlp.0"), (r"mlp\.fc2", "mlp.3"), (r"^norm\.", "encoder.ln."), (r"^head\.", "heads.head."),
)  # fmt: skip
_VIT_OF_TRANSFORMERS: Sequence[Rule] = (
    (r"^vit\.embeddings\.cls_token", "class_token"), (r"^vit\.embeddings\.position_embed", "encoder.pos_embed"),
    (r"pos_embeddings", "pos_embedding"), (r"^vit\.embeddings\.patch_embeddings\.projection", "conv_proj"),
    (r"^vit\.layers\.(\d+)\.", r"encoder.layers.encoder_layer_\1."), (r"layernorm_before", "ln_1"),
    (r"layernorm_after", "ln_2"), (r"attention\.o_proj", "self_attention.out_proj"),
    (r"attention\.qkv\.", "self_attention.in_proj_"), (r"mlp\.fc1", "mlp.0"), (r"mlp\.fc2", "mlp.3"),
    (r"^vit\.layernorm", "encoder.ln"), (r"^classifier", "heads.head"),
)  # fmt: skip


def _joined(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Queries, keys and values as one tensor."""
    out: dict[str, Tensor] = {}
    for name, value in tensors.items():
        if ".q_proj." in name:
            parts = [tensors[name.replace("q_proj", part)] for part in ("q_proj", "k_proj", "v_proj")]
            name, value = name.replace("q_proj", "qkv"), torch.cat(parts)
        if ".k_proj." not in name and ".v_proj." not in name:
            out[name] = value
    return out


def vit_timm() -> Entry:
    """timm's vision transformer of two layers."""
    module: Any = import_module("timm.models.vision_transformer")
    sizes = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "mlp_ratio": 2, "num_classes": 10}
    return module.VisionTransformer(**sizes, depth=2, num_heads=4), _IMAGE, {"load": None}


def _vit_torchvision() -> nn.Module:
    models: Any = import_module("torchvision.models")
    sizes = {"image_size": 32, "patch_size": 8, "hidden_dim": 32, "mlp_dim": 64, "num_classes": 10}
    return models.VisionTransformer(**sizes, num_layers=2, num_heads=4)


def vit_torchvision() -> Entry:
    """torchvision's, filled from a checkpoint of timm's."""
    return _vit_torchvision(), _IMAGE, {"load": _loader(_VIT)}


def vit_torchvision_of_transformers() -> Entry:
    """torchvision's, filled from a checkpoint of transformers'."""
    return _vit_torchvision(), _IMAGE, {"load": _loader(_VIT_OF_TRANSFORMERS, _joined)}


def _vit_transformers(**settings: Any) -> Entry:
    transformers: Any = import_module("transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "image_size": 32, "patch_size": 8, "num_labels": 10}
    config = transformers.ViTConfig(**sizes, num_hidden_layers=2, num_attention_heads=4, **settings)
    return transformers.ViTForImageClassification(config), _TRANSFORMERS, {"load": None}


def vit_transformers() -> Entry:
    """transformers', with the epsilon of the other packages."""
    return _vit_transformers(layer_norm_eps=1e-6)


def vit_transformers_as_it_is() -> Entry:
    """transformers', whose norms add 1e-12 if nobody says otherwise."""
    return _vit_transformers()


# ---------------------------------------------------------------------------------------------- ConvNeXt
_CONVNEXT: Sequence[Rule] = (
    (r"^stem\.(\d)", r"features.0.\1"),
    (r"^stages\.(\d)\.blocks\.(\d+)\.", lambda m: f"features.{2 * int(m[1]) + 1}.{m[2]}."),
    (r"^stages\.(\d)\.downsample\.", lambda m: f"features.{2 * int(m[1])}."), (r"gamma$", "layer_scale"),
    (r"conv_dw", "block.0"), (r"(features\.\d\.\d+)\.norm\.", r"\1.block.2."), (r"mlp\.fc1", "block.3"),
    (r"mlp\.fc2", "block.5"), (r"^head\.norm", "classifier.0"), (r"^head\.fc", "classifier.2"),
)  # fmt: skip
_CONVNEXT_OF_TRANSFORMERS: Sequence[Rule] = (
    (r"^convnext\.embeddings\.patch_embeddings", "stem.0"), (r"^convnext\.embeddings\.layernorm", "stem.1"),
    (r"^convnext\.encoder\.stages\.(\d)\.layers\.", r"stages.\1.blocks."),
    (r"^convnext\.encoder\.stages\.(\d)\.downsampling_layer\.", r"stages.\1.downsample."),
    (r"layer_scale_parameter", "gamma"), (r"dwconv", "conv_dw"), (r"(blocks\.\d+)\.layernorm", r"\1.norm"),
    (r"pwconv1", "mlp.fc1"), (r"pwconv2", "mlp.fc2"), (r"^convnext\.layernorm", "head.norm"),
    (r"^classifier", "head.fc"),
)  # fmt: skip
_WIDTHS = (16, 32, 48, 64)


def _convnext_timm(load: Callable[..., None] | None) -> Entry:
    module: Any = import_module("timm.models.convnext")
    return module.ConvNeXt(depths=(1, 1, 1, 1), dims=_WIDTHS, num_classes=10), _IMAGE, {"load": load}


def convnext_timm() -> Entry:
    """timm's ConvNeXt of four stages."""
    return _convnext_timm(None)


def convnext_timm_of_transformers() -> Entry:
    """timm's, filled from a checkpoint of transformers'."""
    return _convnext_timm(_loader(_CONVNEXT_OF_TRANSFORMERS))


def convnext_torchvision() -> Entry:
    """torchvision's, filled from a checkpoint of timm's."""
    module: Any = import_module("torchvision.models.convnext")
    blocks = [module.CNBlockConfig(*widths, 1) for widths in zip(_WIDTHS, (*_WIDTHS[1:], None), strict=True)]
    return module.ConvNeXt(blocks, num_classes=10), _IMAGE, {"load": _loader(_CONVNEXT)}


def _convnext_transformers(**settings: Any) -> Entry:
    transformers: Any = import_module("transformers")
    config = transformers.ConvNextConfig(
        hidden_sizes=list(_WIDTHS), depths=[1] * 4, num_labels=10, image_size=32, **settings
    )
    return transformers.ConvNextForImageClassification(config), _TRANSFORMERS, {"load": None}


def convnext_transformers() -> Entry:
    """transformers', with one epsilon everywhere."""
    return _convnext_transformers(layer_norm_eps=1e-6)


def convnext_transformers_as_it_is() -> Entry:
    """transformers', whose last norm adds 1e-12 and whose others add 1e-6."""
    return _convnext_transformers()


# ---------------------------------------------------------------------------------------------- Swin
_SWIN: Sequence[Rule] = (
    (r"^patch_embed\.proj", "features.0.0"), (r"^patch_embed\.norm", "features.0.2"),
    (r"^layers\.(\d)\.blocks\.(\d+)\.", lambda m: f"features.{2 * int(m[1]) + 1}.{m[2]}."),
    (r"^layers\.(\d)\.downsample\.", lambda m: f"features.{2 * int(m[1])}."), (r"mlp\.fc1", "mlp.0"),
    (r"mlp\.fc2", "mlp.3"), (r"^head\.fc", "head"),
)  # fmt: skip


def swin_timm() -> Entry:
    """timm's Swin transformer of two stages, of two blocks each, one of which shifts its windows."""
    module: Any = import_module("timm.models.swin_transformer")
    sizes = {"img_size": 32, "patch_size": 4, "embed_dim": 16, "window_size": 4, "mlp_ratio": 2.0, "num_classes": 10}
    return module.SwinTransformer(**sizes, depths=(2, 2), num_heads=(2, 4)), _IMAGE, {"load": None}


def swin_torchvision() -> Entry:
    """torchvision's, filled from a checkpoint of timm's."""
    module: Any = import_module("torchvision.models.swin_transformer")
    sizes = {"patch_size": [4, 4], "embed_dim": 16, "window_size": [4, 4], "mlp_ratio": 2.0, "num_classes": 10}
    model = module.SwinTransformer(**sizes, depths=[2, 2], num_heads=[2, 4])
    return model, _IMAGE, {"load": _loader(_SWIN)}


# ---------------------------------------------------------------------------------------------- ResNet
_RESNET: Sequence[Rule] = (
    (r"^conv1\.", "resnet.embedder.embedder.convolution."), (r"^bn1\.", "resnet.embedder.embedder.normalization."),
    (r"^layer(\d)\.(\d+)\.", lambda m: f"resnet.encoder.stages.{int(m[1]) - 1}.layers.{m[2]}."),
    (r"downsample\.0", "shortcut.convolution"), (r"downsample\.1", "shortcut.normalization"),
    (r"\.conv(\d)\.", lambda m: f".layer.{int(m[1]) - 1}.convolution."),
    (r"\.bn(\d)\.", lambda m: f".layer.{int(m[1]) - 1}.normalization."), (r"^fc\.", "classifier.1."),
)  # fmt: skip


def resnet_torchvision() -> Entry:
    """torchvision's ResNet with one block of two convolutions in each stage."""
    module: Any = import_module("torchvision.models.resnet")
    return module.ResNet(module.BasicBlock, [1, 1, 1, 1], num_classes=10), _IMAGE, {"load": None}


def resnet_timm() -> Entry:
    """timm's, whose checkpoints have the same names."""
    module: Any = import_module("timm.models.resnet")
    return module.ResNet(module.BasicBlock, [1, 1, 1, 1], num_classes=10), _IMAGE, {"load": None}


def resnet_transformers() -> Entry:
    """transformers', filled from a checkpoint of torchvision's."""
    transformers: Any = import_module("transformers")
    widths = [64, 128, 256, 512]
    config = transformers.ResNetConfig(hidden_sizes=widths, depths=[1] * 4, layer_type="basic", num_labels=10)
    return transformers.ResNetForImageClassification(config), _TRANSFORMERS, {"load": _loader(_RESNET)}


# First and second model, the verdict that is true of the pair, and a part of what a refutation says.
PAIRS: Mapping[str, tuple[Callable[[], Entry], Callable[[], Entry], str, str]] = {
    "vit timm/torchvision": (vit_timm, vit_torchvision, "PROVED", ""),
    "vit transformers/torchvision": (vit_transformers, vit_torchvision_of_transformers, "PROVED", ""),
    "vit transformers/torchvision, epsilon": (
        vit_transformers_as_it_is, vit_torchvision_of_transformers, "REFUTED", "1e-06 where 1e-12 is wanted",
    ),
    "convnext timm/torchvision": (convnext_timm, convnext_torchvision, "PROVED", ""),
    "convnext transformers/timm": (convnext_transformers, convnext_timm_of_transformers, "PROVED", ""),
    "convnext transformers/timm, epsilon": (
        convnext_transformers_as_it_is, convnext_timm_of_transformers, "REFUTED", "1e-06 where 1e-12 is wanted",
    ),
    "swin timm/torchvision": (swin_timm, swin_torchvision, "PROVED", ""),
    "resnet torchvision/timm": (resnet_torchvision, resnet_timm, "PROVED", ""),
    "resnet torchvision/transformers": (resnet_torchvision, resnet_transformers, "PROVED", ""),
}  # fmt: skip
