import inspect
import pickle
import sys

import torch


class Config:
    width = 16


def step(x):
    return torch.tanh(x) + 1


def main():
    import __main__

    assert __main__.step is step or inspect.unwrap(__main__.step) is inspect.unwrap(step)
    assert sys.argv == ["captured/c_facts.py", "a b", "--", "--json", ""], sys.argv
    assert sys.path[0].endswith("captured"), sys.path
    assert __file__.endswith("c_facts.py") and __package__ is None and __spec__ is None
    assert isinstance(pickle.loads(pickle.dumps(Config())), Config)
    assert "def step" in inspect.getsource(step)
    assert step.__name__ == "step" and step.__module__ == "__main__"
    assert not torch.cuda.is_initialized()
    for _ in range(20):
        assert step(torch.zeros(8, 16, device="cuda").normal_()).shape == (8, 16)
    print("final: facts hold")


if __name__ == "__main__":
    main()
