"""The settings that a plan takes from Megatron's arguments; everything else is refused by name."""

# pyright: basic
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from tantamount.errors import UserError

__all__ = ["Settings", "settings_of"]


@dataclass(frozen=True)
class Settings:
    """Megatron-LM's arguments by their names there, as far as plans are made of them."""

    num_layers: int
    hidden_size: int
    num_attention_heads: int
    seq_length: int
    padded_vocab_size: int
    micro_batch_size: int
    global_batch_size: int
    tensor_model_parallel_size: int = 1
    pipeline_model_parallel_size: int = 1
    virtual_pipeline_model_parallel_size: int | None = None
    data_parallel_size: int = 1
    context_parallel_size: int = 1
    cp_comm_type: str | Sequence[str] = "p2p"
    account_for_embedding_in_pipeline_split: bool = False
    account_for_loss_in_pipeline_split: bool = False
    sequence_parallel: bool = False
    num_query_groups: int | None = None
    ffn_hidden_size: int | None = None
    kv_channels: int | None = None
    normalization: str = "LayerNorm"
    norm_epsilon: float = 1e-5
    swiglu: bool = False
    add_bias_linear: bool = True
    add_qkv_bias: bool = False
    position_embedding_type: str = "learned_absolute"
    rotary_base: int = 10000
    untie_embeddings_and_output_weights: bool = False
    overlap_p2p_comm: bool = False
    batch_p2p_comm: bool = True
    microbatch_group_size_per_vp_stage: int | None = None
    deallocate_pipeline_outputs: bool = False
    use_distributed_optimizer: bool = False
    optimizer: str = "adam"
    lr: float = 1e-4
    weight_decay: float = 0.01
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_eps: float = 1e-8
    sgd_momentum: float = 0.9
    clip_grad: float = 1.0
    qk_layernorm: bool = False
    multi_latent_attention: bool = False
    q_lora_rank: int | None = None
    kv_lora_rank: int = 512
    qk_head_dim: int = 128
    qk_pos_emb_head_dim: int = 64
    v_head_dim: int = 128
    rope_type: str = "yarn"
    num_experts: int | None = None
    expert_model_parallel_size: int = 1
    expert_tensor_parallel_size: int | None = None
    moe_layer_freq: int | Sequence[int] = 1
    moe_ffn_hidden_size: int | None = None
    moe_shared_expert_intermediate_size: int | None = None
    moe_router_topk: int = 2
    moe_router_num_groups: int | None = None
    moe_router_group_topk: int | None = None
    moe_router_topk_scaling_factor: float | None = None
    moe_router_score_function: str = "softmax"
    moe_router_pre_softmax: bool = False
    moe_router_enable_expert_bias: bool = False
    moe_router_bias_update_rate: float = 1e-3
    moe_router_load_balancing_type: str = "aux_loss"
    moe_aux_loss_coeff: float = 0.0
    moe_token_dispatcher_type: str = "allgather"
    decoder_first_pipeline_num_layers: int | None = None
    decoder_last_pipeline_num_layers: int | None = None

    @property
    def chunks(self) -> int:
        return self.virtual_pipeline_model_parallel_size or 1

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers of every virtual stage: as many each, where embedding and loss may count as one, or the first or
        the last stage has a number of its own."""
        first, last = self.account_for_embedding_in_pipeline_split, self.account_for_loss_in_pipeline_split
        stages = self.pipeline_model_parallel_size * self.chunks
        own = {
            stage: count
            for stage, count in ((0, self.decoder_first_pipeline_num_layers),
                                 (stages - 1, self.decoder_last_pipeline_num_layers)) if count is not None
        }  # fmt: skip
        rest = max(stages - len(own), 1)
        per = (self.num_layers + first + last - sum(own.values())) // rest
        return tuple(own.get(k, per - (first and k == 0) - (last and k == stages - 1)) for k in range(stages))

    @property
    def kinds(self) -> tuple[str, ...]:
        """``layer`` or ``moe`` for every layer, in their order."""
        if self.num_experts is None:
            return ("layer",) * self.num_layers
        pattern = self.moe_layer_freq
        if isinstance(pattern, int):
            pattern = [int(k % pattern == 0) for k in range(self.num_layers)]
        return tuple("moe" if one else "layer" for one in pattern)

    @property
    def expert_ranks(self) -> tuple[int, int]:
        """The numbers of ranks along the axes ``ep`` and ``tp`` that experts are spread over: whole tensor-parallel
        groups, and several of them."""
        ep, tp = self.expert_model_parallel_size, self.tensor_model_parallel_size
        return (ep // tp, tp) if ep > 1 else (1, 1)

    def latent(self) -> dict[str, Any]:
        """The fields of Megatron's configuration for latent attention."""
        names = ("q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim", "rope_type")
        found = {name: getattr(self, name) for name in (*names, "rotary_base")}
        return {**found, "multi_latent_attention": True, "rotary_scaling_factor": 1.0, "mscale": 1.0}

    def experts(self) -> dict[str, Any]:
        """The fields of Megatron's configuration for experts, but for the numbers of ranks."""
        names = (
            "moe_ffn_hidden_size", "moe_shared_expert_intermediate_size", "moe_router_topk", "moe_router_num_groups",
            "moe_router_group_topk", "moe_router_topk_scaling_factor", "moe_router_score_function",
            "moe_router_pre_softmax", "moe_token_dispatcher_type", "moe_router_enable_expert_bias",
            "moe_router_bias_update_rate",
        )  # fmt: skip
        found = {name: getattr(self, name) for name in names}
        return {
            **found, "num_moe_experts": self.num_experts, "moe_router_load_balancing_type": "none",
            "moe_aux_loss_coeff": 0.0, "moe_grouped_gemm": True,
        }  # fmt: skip

    @property
    def replicas(self) -> int:
        """The ranks whose gradients of dense parameters Megatron averages."""
        return self.data_parallel_size * self.context_parallel_size

    @property
    def microbatches(self) -> int:
        return self.global_batch_size // (self.micro_batch_size * self.data_parallel_size)


# What says nothing about what a step computes: files, messages, data, rates that change from step to step, and kernels
# that do at once what is done here in several operators.
_BESIDE = frozenset(
    [
        "world_size",
        "rank",
        "local_rank",
        "save",
        "load",
        "save_interval",
        "log_interval",
        "eval_interval",
        "eval_iters",
        "train_iters",
        "train_samples",
        "exit_interval",
        "tensorboard_dir",
        "data_path",
        "split",
        "tokenizer_type",
        "tokenizer_model",
        "vocab_file",
        "merge_file",
        "vocab_size",
        "make_vocab_size_divisible_by",
        "seed",
        "num_workers",
        "distributed_backend",
        "distributed_timeout_minutes",
        "max_position_embeddings",
        "lr_decay_style",
        "lr_decay_iters",
        "lr_warmup_iters",
        "lr_warmup_fraction",
        "min_lr",
        "use_mcore_models",
        "init_method_std",
        "bias_dropout_fusion",
        "bias_gelu_fusion",
        "bias_swiglu_fusion",
        "masked_softmax_fusion",
        "gradient_accumulation_fusion",
        "timing_log_level",
        "ckpt_format",
        "no_load_optim",
        "no_load_rng",
        "no_save_optim",
        "no_save_rng",
        "use_cpu_initialization",
        "moe_grouped_gemm",
        "moe_permute_fusion",
        "moe_router_fusion",
        "moe_per_layer_logging",
    ]
)


def settings_of(args: Any) -> Settings:
    """The settings in Megatron-LM's arguments: a namespace, or a table. Raises :class:`UserError` for one that is
    missing or does not fit, and for those that are set and that plans know nothing of."""
    given = dict(args) if isinstance(args, Mapping) else dict(vars(args))
    known = {field.name for field in fields(Settings)}
    layers_per_stage = given.pop("num_layers_per_virtual_pipeline_stage", None)
    if not given.pop("group_query_attention", True):  # Megatron-LM has a number of groups all the same
        given.pop("num_query_groups", None)
    if str(given.get("params_dtype")) == "torch.float32":
        given.pop("params_dtype")
    if given.get("transformer_impl") == "local":
        given.pop("transformer_impl")
    if "padded_vocab_size" not in given and "vocab_size" in given:
        given["padded_vocab_size"] = given["vocab_size"]
    unknown = [name for name, value in given.items() if name not in known | _BESIDE and value]
    if unknown:
        raise _wrong(", ".join(f"{name} = {given[name]!r}" for name in sorted(unknown)), "arguments that plans know of")
    missing = [
        field.name for field in fields(Settings) if field.default is field.default_factory and field.name not in given
    ]
    if missing:
        raise _wrong(f"no {', '.join(missing)}", "all sizes of the model and its batch")
    chosen = {name: value for name, value in given.items() if name in known and value is not None}
    if layers_per_stage:
        stages = chosen["num_layers"] // layers_per_stage
        chosen["virtual_pipeline_model_parallel_size"] = stages // chosen.get("pipeline_model_parallel_size", 1)
    found = Settings(**chosen)
    _check(found)
    return found


def _check(s: Settings) -> None:
    stages = s.pipeline_model_parallel_size * s.chunks
    tp = s.tensor_model_parallel_size
    for wrong, found, needed in (
        (not s.untie_embeddings_and_output_weights, "embeddings that are tied to the output layer",
         "untie_embeddings_and_output_weights = True"),
        (s.global_batch_size % (s.micro_batch_size * s.data_parallel_size), f"global_batch_size {s.global_batch_size}",
         f"a multiple of {s.micro_batch_size * s.data_parallel_size}"),
        (sum(s.layers) != s.num_layers, f"{s.num_layers} layers", f"a multiple of {stages} stages"),
        (s.padded_vocab_size % s.tensor_model_parallel_size, f"padded_vocab_size {s.padded_vocab_size}",
         f"a multiple of {s.tensor_model_parallel_size}"),
        (s.position_embedding_type not in ("rope", "learned_absolute", "none"),
         f"position_embedding_type {s.position_embedding_type}", "rope, learned_absolute or none"),
        (s.optimizer not in ("adam", "sgd"), f"optimizer {s.optimizer}", "adam or sgd"),
        (s.use_distributed_optimizer and s.optimizer != "adam", f"the distributed optimizer with {s.optimizer}",
         "adam"),
        (s.clip_grad <= 0, f"clip_grad {s.clip_grad}", "a positive norm"),
        *(_of_experts(s) if s.num_experts is not None else ()),
        *(_of_context(s) if s.context_parallel_size > 1 else ()),
        (s.expert_model_parallel_size > 1 and s.num_experts is None,
         f"expert_model_parallel_size {s.expert_model_parallel_size}", "1 without experts"),
        (s.multi_latent_attention and s.rope_type != "rope", f"rope_type {s.rope_type}", "rope"),
        (s.multi_latent_attention and s.position_embedding_type != "rope",
         f"position_embedding_type {s.position_embedding_type} with latent attention", "rope"),
        ((s.multi_latent_attention or s.qk_layernorm) and tp > 1 and not s.sequence_parallel,
         "norms of queries or latent attention without sequence_parallel", "sequence_parallel = True"),
    ):  # fmt: skip
        if wrong:
            raise _wrong(found, needed)


def _of_context(s: Settings) -> Iterator[tuple[Any, str, str]]:
    cp, tp = s.context_parallel_size, s.tensor_model_parallel_size
    kinds = {s.cp_comm_type} if isinstance(s.cp_comm_type, str) else set(s.cp_comm_type)
    with_cp = f"with context_parallel_size = {cp}"
    yield kinds != {"all_gather"}, f"cp_comm_type {', '.join(sorted(kinds))} {with_cp}", "all_gather"
    yield (s.seq_length % (2 * cp) or s.seq_length % (tp * cp), f"seq_length {s.seq_length} {with_cp}",
           f"a multiple of {2 * cp} and {tp * cp}")  # fmt: skip
    yield s.num_experts is not None, f"experts {with_cp}", "1"
    yield s.multi_latent_attention, f"latent attention {with_cp}", "1"
    yield s.use_distributed_optimizer, f"the distributed optimizer {with_cp}", "1"


def _of_experts(s: Settings) -> Iterator[tuple[Any, str, str]]:
    tp, ep = s.tensor_model_parallel_size, s.expert_model_parallel_size
    spread = ep > 1 and (ep % tp or (tp * s.data_parallel_size) % ep)
    aux = s.moe_router_load_balancing_type != "none" and s.moe_aux_loss_coeff
    yield len(s.kinds) != s.num_layers, f"moe_layer_freq {s.moe_layer_freq}", f"one number for {s.num_layers} layers"
    yield aux, f"moe_aux_loss_coeff {s.moe_aux_loss_coeff}", "0, or moe_router_load_balancing_type none"
    yield (s.moe_token_dispatcher_type != "alltoall", f"moe_token_dispatcher_type {s.moe_token_dispatcher_type}",
           "alltoall")  # fmt: skip
    groups, chosen = s.moe_router_num_groups or 1, s.moe_router_group_topk or s.moe_router_num_groups or 1
    yield ((s.num_experts or 1) % groups, f"moe_router_num_groups {groups}", f"a divisor of {s.num_experts}")
    yield (chosen * (s.num_experts or 1) // groups < s.moe_router_topk, f"moe_router_group_topk {chosen}",
           f"groups that have {s.moe_router_topk} experts")  # fmt: skip
    yield spread, f"expert_model_parallel_size {ep}", f"a multiple of tensor_model_parallel_size {tp} within dp x tp"
    yield ep == 1 and tp > 1, "experts on one rank of several that are tensor-parallel", "expert_model_parallel_size"
    yield (ep > 1 and tp > 1 and s.expert_tensor_parallel_size != 1,
           f"expert_tensor_parallel_size {s.expert_tensor_parallel_size}", "1")  # fmt: skip
    yield tp > 1 and not s.sequence_parallel, "experts without sequence_parallel", "sequence_parallel = True"
    yield s.num_experts and s.num_experts % ep, f"{s.num_experts} experts", f"a multiple of {ep}"
    yield not s.swiglu or s.add_bias_linear, "experts with biases or without swiglu", "swiglu, no add_bias_linear"


def _wrong(found: str, needed: str) -> UserError:
    return UserError("plan-model", place="plan_of_megatron", found=found, needed=needed)
