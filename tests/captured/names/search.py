def hit(x):
    return x * 5
