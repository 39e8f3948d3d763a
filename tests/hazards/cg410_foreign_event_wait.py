"""foreign-event-wait: the region waits for work that another stream was given before the capture."""

import torch

DEVICE = "cuda"

loader_stream = torch.cuda.Stream(priority=-1)
side = torch.cuda.Stream(priority=-1)
loaded = torch.cuda.Event()
announced = torch.cuda.Event(external=True)
batch = torch.zeros(4, 8, device=DEVICE)


def load():
    loader_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(loader_stream):
        batch.normal_()
        loaded.record()
        announced.record()


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    load()
    loader_stream.synchronize()
    return (torch.randn(4, 8, device=DEVICE),)


def bad_wait_for_the_loader(x):
    torch.cuda.current_stream().wait_event(loaded)  # CG410
    return x + batch


def bad_event_wait(x):
    loaded.wait()  # CG410
    return x * batch


class Prefetcher:
    def __init__(self):
        self.stream = torch.cuda.Stream(priority=-1)
        self.batch = torch.zeros(4, 8, device=DEVICE)
        self.preload()

    def preload(self):
        with torch.cuda.stream(self.stream):
            self.batch.fill_(1.0)

    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)  # CG410
        return self.batch


prefetcher = Prefetcher()


def bad_prefetcher_in_the_step(x):
    return x + prefetcher.next()


def inputs_good_wait_before_the_step():
    load()
    torch.cuda.current_stream().wait_event(loaded)
    return (torch.randn(4, 8, device=DEVICE),)


def good_wait_before_the_step(x):
    return x - batch


def good_event_of_the_region(x):
    forked, done = torch.cuda.Event(), torch.cuda.Event()
    forked.record()
    side.wait_event(forked)
    with torch.cuda.stream(side):
        energy = x.square()
        done.record(side)
    out = x.cos()
    done.wait()
    return out + energy


def good_external_event(x):
    torch.cuda.current_stream().wait_event(announced)
    return x + 1


def good_record_only(x):
    marker = torch.cuda.Event()
    out = x.sin()
    marker.record()
    return out
