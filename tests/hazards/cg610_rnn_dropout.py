"""rnn-dropout: the generator is seeded between the last eager call of a recurrent layer with dropout and the capture."""

import torch
from torch import nn
from torch.nn import functional as F

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(5, 4, 16, device=DEVICE),)


class Tagger(nn.Module):
    def __init__(self, layer=nn.LSTM, layers=2, dropout=0.5):
        super().__init__()
        self.rnn = layer(16, 32, num_layers=layers, dropout=dropout, bidirectional=True)
        self.head = nn.Linear(64, 7)

    def encode(self, x):
        return self.rnn(x)[0]  # CG610

    def forward(self, x):
        return self.head(self.encode(x))


class SeededTagger(nn.Module):
    """Sets a seed behind its layer, for whoever draws next."""

    def __init__(self, seed):
        super().__init__()
        self.seed = seed
        self.rnn = nn.GRU(16, 32, 2, dropout=0.3)

    def forward(self, x):
        out, _ = self.rnn(x)  # CG610
        torch.cuda.manual_seed(self.seed)  # CG605 CG610
        return out


class PlainTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(16, 32, num_layers=2, dropout=0.0)

    def forward(self, x):
        return F.dropout(self.rnn(x)[0], 0.2, self.training)


class EvaluatedTagger(nn.Module):
    """A frozen encoder, always in evaluation mode."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(16, 32, num_layers=3, dropout=0.3).eval()

    def train(self, mode=True):
        super().train(mode)
        self.rnn.eval()
        return self

    def forward(self, x):
        return self.rnn(x)[0]


class Stacked(nn.Module):
    """The same mathematics: one recurrent layer at a time and dropout between them."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.LSTM(16, 32), nn.LSTM(32, 32)])
        self.dropout = nn.Dropout(0.3)

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            x, _state = layer(self.dropout(x) if number else x)
        return x


seeded = SeededTagger(7).to(DEVICE).requires_grad_(False)
plain_tagger = PlainTagger().to(DEVICE).requires_grad_(False)
evaluated = EvaluatedTagger().to(DEVICE).requires_grad_(False)
stacked = Stacked().to(DEVICE).requires_grad_(False)


def bad_seed_behind_the_layer(x):
    return seeded(x)


def good_dropout_zero_inside(x):
    return plain_tagger(x)


def good_evaluation_mode(x):
    return evaluated(x)


def good_dropout_between_layers(x):
    return stacked(x)


def warm_up(step, times=3):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(times):
            step()
    torch.cuda.current_stream().wait_stream(side)


def batches(count):
    return [torch.randn(5, 4, 16, device=DEVICE) for _ in range(count)]


def eager_results(model, x, data, calls):
    """Results of `model` from a seed on: `calls` with the same input, then one for each batch."""
    torch.manual_seed(5)
    for _ in range(calls):
        model(x)
    return [model(batch).detach().clone() for batch in data]


def replayed_like(graph, x, out, data, expected):
    right = []
    for batch, wanted in zip(data, expected):
        x.copy_(batch)
        graph.replay()
        right.append(torch.equal(out, wanted))
    return all(right)


@torch.no_grad()
def capture_bad_seeded_for_the_run():
    model = Tagger().to(DEVICE)
    (x,) = batches(1)
    warm_up(lambda: model(x))
    torch.manual_seed(5)  # CG610
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = model.head(model.encode(x))
    graph.replay()
    return bool(out.isfinite().all())


def seed_everything(seed):
    torch.cuda.manual_seed_all(seed)  # CG610


def capture_bad_training_step():
    model = Tagger(nn.GRU).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    (x,) = batches(1)

    def step():
        optimizer.zero_grad(set_to_none=False)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    warm_up(step)
    seed_everything(3)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    graph.replay()
    return bool(loss.isfinite())


@torch.no_grad()
def capture_bad_state_set_back():
    decoder = nn.GRU(16, 16, 3, dropout=0.1).to(DEVICE)
    (x,) = batches(1)
    before = torch.cuda.get_rng_state()
    warm_up(lambda: decoder(x))
    torch.cuda.set_rng_state(before)  # CG610
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, hidden = decoder(x)  # CG610
    graph.replay()
    return bool(out.isfinite().all())


@torch.no_grad()
def capture_bad_warm_up_leaves_no_trace():
    elman = nn.RNN(16, 16, num_layers=2, nonlinearity="relu", dropout=0.5).to(DEVICE)
    (x,) = batches(1)
    with torch.random.fork_rng():  # CG610
        warm_up(lambda: elman(x))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = elman(x.relu())[1]  # CG610
    graph.replay()
    return bool(out.isfinite().all())


@torch.no_grad()
def capture_bad_dropout_of_one_layer():
    """It drops nothing, but its state is set up as well."""
    rnn = nn.LSTM(16, 16, dropout=0.2).to(DEVICE)
    (x,) = batches(1)
    warm_up(lambda: rnn(x))
    torch.cuda.default_generators[0].manual_seed(1)  # CG610
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, _ = rnn(x)  # CG610
    graph.replay()
    return bool(out.isfinite().all())


@torch.no_grad()
def capture_good_lstm_like_eager():
    model = Tagger().to(DEVICE)
    (x,), data = batches(1), batches(4)
    expected = eager_results(model, x, data, 3)
    torch.manual_seed(5)
    warm_up(lambda: model(x))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = model(x)
    return replayed_like(graph, x, out, data, expected) and not torch.equal(expected[0], expected[1])


@torch.no_grad()
def capture_good_gru_seeded_and_called_once():
    model = Tagger(nn.GRU, layers=3).to(DEVICE)
    (x,), data = batches(1), batches(4)
    expected = eager_results(model, x, data, 1)
    warm_up(lambda: model(x))
    torch.manual_seed(5)
    model(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = model(x)
    return replayed_like(graph, x, out, data, expected)


def capture_good_training_step():
    """Seeded before the warm-up, and numbers are drawn behind it."""
    model = Tagger().to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    torch.manual_seed(5)
    (x,) = batches(1)

    def step():
        optimizer.zero_grad(set_to_none=False)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    warm_up(step)
    x.copy_(torch.randn(5, 4, 16, device=DEVICE))
    before = model.head.weight.detach().clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    graph.replay()
    return bool(loss.isfinite()) and not torch.equal(before, model.head.weight)


@torch.no_grad()
def capture_good_seed_of_the_cpu():
    """Neither the state of the CPU nor a generator of its own concerns cuDNN; a call in `eval()` changes nothing."""
    model = Tagger(nn.GRU).to(DEVICE)
    (x,), data = batches(1), batches(4)
    expected = eager_results(model, x, data, 3)
    torch.manual_seed(5)
    warm_up(lambda: model(x))
    torch.set_rng_state(torch.get_rng_state())
    torch.default_generator.manual_seed(1)
    torch.Generator(DEVICE).manual_seed(1)
    with torch.random.fork_rng(devices=[]):
        torch.randn(4)
    model.eval()
    model(x)
    model.train()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = model(x)
    return replayed_like(graph, x, out, data, expected)


@torch.no_grad()
def capture_good_no_dropout_to_set_up():
    model = PlainTagger().to(DEVICE)
    (x,) = batches(1)
    warm_up(lambda: model(x))
    torch.manual_seed(5)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = model(x)
    graph.replay()
    first = out.clone()
    graph.replay()
    return not torch.equal(first, out)
