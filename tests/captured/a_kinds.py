async def coroutine(x):
    return x * 2


def generator(x):
    yield x * 2


def identity(x):
    return x


NUMBER = 3
