"""conditional-node-outside-capture: an IF node is begun while nothing is captured."""

# needs: torch>=2.13 (not in 2.11)
import torch


def fails() -> None:
    """The node belongs inside the region."""
    flag = torch.tensor(True, device="cuda")
    g = torch.cuda.CUDAGraph()
    g.begin_capture_to_if_node(flag)


def works() -> None:
    """Begun and ended inside; the body runs only where the flag is true."""
    flag, steps = torch.tensor(True, device="cuda"), torch.zeros(1, device="cuda")
    steps.add_(0)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        g.begin_capture_to_if_node(flag)
        steps.add_(1)
        g.end_capture_to_conditional_node()
    for taken in (True, False, True):
        flag.fill_(taken)
        g.replay()
    assert steps.item() == 2
