"""object-collective: Python objects are pickled on the CPU and uploaded in the recorded step."""

# needs: gpus=2
import os
from types import SimpleNamespace

import torch
import torch.distributed as dist


def start():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=device)
    x = torch.ones(256, device=device)
    dist.all_reduce(x.clone())
    dist.all_gather_into_tensor(torch.empty(512, device=device), x)
    torch.cuda.synchronize()
    return x


def right_sums(graph, x):
    """Whether each replay sums its new input over both ranks; ends the process group."""
    right = []
    for value in (1.0, 5.0):
        x.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        right.append(bool(x.eq(2 * value).all()))
    graph.reset()
    dist.destroy_process_group()
    return all(right)


class Logger:
    def __init__(self):
        self.rows = [None, None] if dist.get_rank() == 0 else None

    def log(self, **metrics):
        dist.gather_object(metrics, self.rows, dst=0)  # CG702


def agreed(setting):
    settings = [setting]
    torch.distributed.broadcast_object_list(settings, src=0)  # CG702
    return settings[0]


def capture_bad_metrics_of_all_ranks():
    x = start()
    metrics = [None, None]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)
        dist.all_gather_object(metrics, {"rank": dist.get_rank()})  # CG702
    return right_sums(graph, x)


def capture_bad_setting_of_rank_zero():
    x = start()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x.mul_(agreed({"scale": 1.0})["scale"]))
    return right_sums(graph, x)


def capture_bad_logger_inside():
    x = start()
    logger = Logger()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)
        logger.log(size=x.numel())
    return right_sums(graph, x)


def capture_good_objects_beside_the_graph():
    x = start()
    settings, metrics = [{"scale": 1.0}], [None, None]
    dist.broadcast_object_list(settings, src=0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x.mul_(settings[0]["scale"]))
    dist.all_gather_object(metrics, {"rank": dist.get_rank()})
    return right_sums(graph, x) and metrics == [{"rank": 0}, {"rank": 1}]


def capture_good_logger_after_the_capture():
    x = start()
    logger = Logger()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)
    logger.log(size=x.numel())
    return right_sums(graph, x)


def capture_good_tensors_inside():
    x = start()
    gathered = torch.empty(512, device=x.device)
    registry = SimpleNamespace(all_gather_object=lambda objects, obj: [*objects, obj])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_gather_into_tensor(gathered, x)
        dist.all_reduce(x)
        registry.all_gather_object([], "step")
    return right_sums(graph, x) and bool(gathered.eq(5.0).all())
