def step(x):
    return x.exp()
