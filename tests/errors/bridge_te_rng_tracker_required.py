"""bridge-te-rng-tracker-required: a provider is used alone, so nothing copied the tracker's flag into it."""

# needs: transformer-engine, megatron-core==0.19.2, megatron-bridge==0.6.2
import torch.distributed as dist
from megatron.bridge.models.gpt_provider import GPTModelProvider
from megatron.core import parallel_state
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed


def _provider(*, tracker: bool) -> GPTModelProvider:
    provider = GPTModelProvider(
        num_layers=2,
        hidden_size=64,
        num_attention_heads=4,
        seq_length=32,
        vocab_size=128,
        cuda_graph_impl="transformer_engine",
        cuda_graph_modules=["attn"],
        use_te_rng_tracker=tracker,
        gradient_accumulation_fusion=False,
    )
    provider.finalize()
    return provider


def fails() -> None:
    """The model is made for inference, without a training config."""
    _provider(tracker=False).provide(pre_process=True, post_process=True)


def works() -> None:
    """The provider has the flag itself, and the process is seeded with that tracker."""
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    model_parallel_cuda_manual_seed(1, te_rng_tracker=True)
    model = _provider(tracker=True).provide(pre_process=True, post_process=True)
    assert len(model.decoder.layers) == 2
