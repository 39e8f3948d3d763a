"""bridge-packed-sequences-refused: packs of different length, and graphs with one shape."""

# needs: transformer-engine, megatron-core==0.19.2, megatron-bridge==0.6.2
from typing import Any

from megatron.bridge.data.packing.config import PackedSequenceSpecs
from megatron.bridge.models.gpt_provider import GPTModelProvider
from megatron.bridge.training.config import (
    CheckpointConfig,
    ConfigContainer,
    GPTSFTDatasetConfig,
    LoggerConfig,
    OptimizerConfig,
    SchedulerConfig,
    TokenizerConfig,
    TrainingConfig,
)


def _config(*, pad_cu_seqlens: bool, dataset_kwargs: dict[str, Any]) -> ConfigContainer:
    return ConfigContainer(
        train=TrainingConfig(train_iters=10, global_batch_size=1, micro_batch_size=1),
        model=GPTModelProvider(
            num_layers=2,
            hidden_size=64,
            num_attention_heads=4,
            seq_length=32,
            vocab_size=128,
            cuda_graph_impl="transformer_engine",
            cuda_graph_modules=["attn"],
            calculate_per_token_loss=True,
        ),
        optimizer=OptimizerConfig(optimizer="adam", lr=1e-3),
        scheduler=SchedulerConfig(lr_decay_iters=10),
        dataset=GPTSFTDatasetConfig(
            seq_length=32,
            dataset_root="/data/sft",
            enable_offline_packing=True,
            offline_packing_specs=PackedSequenceSpecs(packed_sequence_size=32, pad_cu_seqlens=pad_cu_seqlens),
            dataset_kwargs=dataset_kwargs,
        ),
        logger=LoggerConfig(),
        tokenizer=TokenizerConfig(tokenizer_type="NullTokenizer", vocab_size=128),
        checkpoint=CheckpointConfig(),
    )


def fails() -> None:
    """Packs keep the length that their samples add up to."""
    _config(pad_cu_seqlens=False, dataset_kwargs={}).validate()


def works() -> None:
    """Packs and their boundaries are padded to one shape."""
    config = _config(pad_cu_seqlens=True, dataset_kwargs={"pad_to_max_length": True})
    config.ddp.average_in_collective = False
    config.validate()
