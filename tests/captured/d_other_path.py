import torch

SCALE = torch.ones(16, device="cuda")
MEAN = torch.zeros(16, device="cuda")


def step(x):
    """Normalize in plain operations, and by cuDNN where a graph is captured."""
    if torch.cuda.is_current_stream_capturing():
        return torch.ops.aten.cudnn_batch_norm(x, SCALE, MEAN, MEAN.clone(), SCALE.clone(), True, 0.1, 1e-5)[0]
    return (x - x.mean(0)) / x.std(0, unbiased=False)
