"""record-stream: a block that is marked for another stream is not reused in the rest of the capture."""

import torch

DEVICE = "cuda"

side = torch.cuda.Stream(priority=-1)


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(64, 8, device=DEVICE),)


def bad_branch_marked_by_hand(x):
    main = torch.cuda.current_stream()
    hidden = x.tanh()
    side.wait_stream(main)
    with torch.cuda.stream(side):
        energy = hidden.square().sum(1)
    hidden.record_stream(side)  # CG501
    main.wait_stream(side)
    return energy


class Overlap:
    def __init__(self):
        self.stream = torch.cuda.Stream(priority=-1)

    def run(self, function, tensors):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            out = function(tensors)
        for tensor in tensors:
            tensor.record_stream(self.stream)  # CG501
        return out

    def join(self):
        torch.cuda.current_stream().wait_stream(self.stream)


overlap = Overlap()


def bad_marks_in_a_loop(x):
    parts = [chunk * 2 for chunk in x.chunk(4)]
    total = overlap.run(torch.cat, parts)
    overlap.join()
    return total


def hand_over(tensor, stream):
    tensor.record_stream(stream)  # CG501
    return tensor


def bad_mark_in_a_helper(x):
    main = torch.cuda.current_stream()
    side.wait_stream(main)
    with torch.cuda.stream(side):
        energy = x.square()
    main.wait_stream(side)
    return hand_over(energy, main) + 1


def good_join_before_the_tensor_dies(x):
    main = torch.cuda.current_stream()
    hidden = x.tanh()
    side.wait_stream(main)
    with torch.cuda.stream(side):
        energy = hidden.square().sum(1)
    main.wait_stream(side)
    del hidden
    return energy


def good_event_record(x):
    done = torch.cuda.Event()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        energy = x.square()
    done.record(side)
    done.wait()
    return energy + 1


class Tape:
    def __init__(self):
        self.stream = torch.zeros(64, 8, device=DEVICE)

    def record_stream(self, values):
        self.stream.copy_(values)


tape = Tape()


def good_method_of_that_name(x):
    tape.record_stream(x)
    return tape.stream * 2
