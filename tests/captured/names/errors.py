import check
import search
import trial


def step(x):
    return search.hit(x) + check.one(x) + trial.two(x)
