"""bridge-nan-check-must-be-off: the loss is read on the host inside a step that is captured."""

# needs: transformer-engine, megatron-core==0.19.2, megatron-bridge==0.6.2
from megatron.bridge.models.gpt_provider import GPTModelProvider
from megatron.bridge.training.config import (
    CheckpointConfig,
    ConfigContainer,
    LoggerConfig,
    MockGPTDatasetConfig,
    OptimizerConfig,
    SchedulerConfig,
    TokenizerConfig,
    TrainingConfig,
)


def _config() -> ConfigContainer:
    masks = {"reset_attention_mask": False, "reset_position_ids": False, "eod_mask_loss": False}
    return ConfigContainer(
        train=TrainingConfig(train_iters=10, global_batch_size=2, micro_batch_size=1),
        model=GPTModelProvider(
            num_layers=2,
            hidden_size=64,
            num_attention_heads=4,
            seq_length=32,
            vocab_size=128,
            cuda_graph_impl="full_iteration",
            cuda_graph_modules=[],
        ),
        optimizer=OptimizerConfig(optimizer="adam", lr=1e-3),
        scheduler=SchedulerConfig(lr_decay_iters=10),
        dataset=MockGPTDatasetConfig(random_seed=1, seq_length=32, **masks),
        logger=LoggerConfig(),
        tokenizer=TokenizerConfig(tokenizer_type="NullTokenizer", vocab_size=128),
        checkpoint=CheckpointConfig(),
    )


def fails() -> None:
    """The check is on by default."""
    _config().validate()


def works() -> None:
    """The checks of the loss and of the gradients are both off."""
    config = _config()
    config.rerun_state_machine.check_for_nan_in_loss = False
    config.ddp.check_for_nan_in_grad = False
    config.validate()
