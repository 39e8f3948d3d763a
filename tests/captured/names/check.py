def one(x):
    return x.new_ones(())
