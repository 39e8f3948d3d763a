def two(x):
    return x.new_ones(()) * 2
