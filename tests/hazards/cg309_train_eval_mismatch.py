"""train-eval-mismatch: a graphed module is called in the other mode and runs its eager forward without a word."""

import torch
from torch import nn

DEVICE = "cuda"


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.fc = nn.Linear(16, 8)

    def forward(self, x):
        return self.fc(self.norm(x)).relu()


def build():
    """A module, a twin that stays eager, and batches."""
    torch.manual_seed(0)
    model, twin = Head().to(DEVICE), Head().to(DEVICE)
    twin.load_state_dict(model.state_dict())
    return model, twin, [torch.randn(4, 16, device=DEVICE) for _ in range(3)]


def agree(model, twin, batches):
    return all([torch.allclose(model(batch), twin(batch), rtol=1e-3, atol=1e-4) for batch in batches])


class Fitter:
    def __init__(self):
        self.model, self.twin, self.batches = build()
        self.model = torch.cuda.make_graphed_callables(self.model, (torch.randn(4, 16, device=DEVICE),))

    def train_epoch(self):
        self.model.train()
        return agree(self.model, self.twin, self.batches)

    def validate(self):
        self.model.eval()  # CG309
        with torch.no_grad():
            return agree(self.model, self.twin, self.batches)

    def validate_twin(self):
        self.twin.eval()
        with torch.no_grad():
            return agree(self.twin, self.twin, self.batches)


def capture_bad_validation_of_graphed_module():
    fitter = Fitter()
    return fitter.train_epoch() and fitter.validate()


def capture_bad_graphed_in_eval_then_trained():
    model, twin, batches = build()
    model.eval()
    model = torch.cuda.make_graphed_callables(model, (batches[0].clone(),))
    model.train()  # CG309
    return agree(model, twin, batches)


def capture_bad_mode_as_argument():
    model, twin, batches = build()
    graphed = torch.cuda.make_graphed_callables(model, (batches[0].clone(),), num_warmup_iters=3)
    graphed.train(mode=False)  # CG309
    return agree(graphed, twin, batches)


def capture_good_mode_of_the_graph():
    model, twin, batches = build()
    model = torch.cuda.make_graphed_callables(model.eval(), (batches[0].clone(),))
    model.eval()
    return agree(model, twin, batches)


def capture_good_validation_by_the_twin():
    fitter = Fitter()
    return fitter.train_epoch() and fitter.validate_twin() and fitter.train_epoch()


def capture_good_back_in_time():
    model, twin, batches = build()
    model = torch.cuda.make_graphed_callables(model, (batches[0].clone(),))
    model.eval()
    model.train()
    return agree(model, twin, batches)


def capture_good_function_without_mode():
    model, twin, batches = build()
    model.requires_grad_(False)

    def score(x):
        return model.norm(x).square()

    graphed = torch.cuda.make_graphed_callables(score, (batches[0].clone(),))
    model.eval()
    return agree(graphed, lambda x: twin.norm(x).square(), batches)
