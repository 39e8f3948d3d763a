"""thread-inside: another thread does GPU work while the region is captured."""

import threading
from concurrent.futures import ThreadPoolExecutor

import torch

DEVICE = "cuda"
REPEATS = 1 << 19  # each worker needs 64 MiB of new memory

pool = ThreadPoolExecutor(2)


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=DEVICE),)


def summarise(x, out):
    out.append(x.repeat(REPEATS, 1).std(0))


def bad_statistics_thread(x):
    found = []
    worker = threading.Thread(target=summarise, args=(x, found))
    worker.start()  # CG408
    out = x.tanh()
    worker.join()
    return out * found[0]


def expert(weight, x):
    return (x.repeat(REPEATS, 1) * weight).sum(0)


class ParallelExperts:
    def __init__(self, count):
        self.weights = list(torch.ones(count, 8, device=DEVICE))

    def submit_all(self, x):
        futures = [pool.submit(expert, weight, x) for weight in self.weights]  # CG408
        return sum(future.result() for future in futures)


experts = ParallelExperts(2)


def bad_experts_in_a_pool(x):
    return experts.submit_all(x)


def bad_chunks_mapped_over_threads(x):
    with ThreadPoolExecutor(max_workers=2) as workers:
        halves = list(workers.map(lambda half: half.repeat(REPEATS * 2, 1).sum(0), x.chunk(2)))  # CG408
    return halves[0] + halves[1]


def good_experts_one_after_the_other(x):
    return sum((x * weight).sum(0) for weight in experts.weights)


def good_experts_on_streams(x):
    main = torch.cuda.current_stream()
    sums = []
    for weight in experts.weights:
        stream = torch.cuda.Stream(priority=-1)
        stream.wait_stream(main)
        with torch.cuda.stream(stream):
            sums.append((x * weight).sum(0))
        main.wait_stream(stream)
    return torch.stack(sums)


def good_thread_without_gpu_work(x):
    columns = pool.submit(max, x.shape).result()
    return x.tanh() / columns


lock = threading.Lock()


def good_lock_only(x):
    with lock:
        return x.sigmoid() * 2


class Queue:
    def submit(self, function, x):
        return function(x)


queue = Queue()


def good_submit_that_starts_nothing(x):
    return queue.submit(torch.relu, x)
