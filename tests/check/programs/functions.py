"""Functions, closures, generators, decorators."""
import functools
from contextlib import contextmanager


def add(a, b=2, *rest, scale=1, **more):
    return (a + b) * scale


#? function add
add
#? int 3
add(1)
#? int 5
add(1, 4)
#? int 5
add(b=4, a=1)
#? int 10
add(1, 4, scale=2)
#? int 5
add(*[1, 4])
#? int 7
add(**{"a": 3, "b": 4})


def gathers(*args, **kwargs):
    return args, kwargs


#? tuple of 3
gathers(1, 2, 3)[0]
#? dict of 1
gathers(x=1)[1]


def outer(n):
    def inner(m):
        return n + m

    return inner


#? function inner
outer(1)
#? int 5
outer(2)(3)


def counter():
    count = 0

    def step():
        nonlocal count
        count += 1
        return count

    return step


step = counter()
#? int 1
step()
#? int 2
step()
level = 1


def raise_level():
    global level
    level = 2


raise_level()
#? int 2
level


def nothing():
    pass


#? None
nothing()
#? function <lambda>
twice = lambda x: 2 * x
#? int 6
twice(3)
#? int 12
functools.partial(add, 10)()


def doubled(function):
    @functools.wraps(function)
    def wrapper(*args):
        return 2 * function(*args)

    return wrapper


@doubled
def one():
    return 1


#? int 2
one()


def numbers():
    yield 1
    yield 2


for n in numbers():
    #? int 1 / int 2
    n
#? list of 2
list(numbers())


def all_numbers():
    yield from numbers()
    yield 3


#? list of 3
list(all_numbers())


@contextmanager
def opened():
    yield "handle"


with opened() as handle:
    #? str handle
    handle


@functools.lru_cache
def cached(n):
    return n + 1


#? int 3
cached(2)


def factorial(n):
    return 1 if n <= 1 else n * factorial(n - 1)


#? int 2
factorial(2)
#? int 3
functools.reduce(lambda x, y: x + y, [1, 2])
