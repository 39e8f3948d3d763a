"""Classes, properties, inheritance, data classes, context managers."""
from dataclasses import dataclass, field, replace
from enum import Enum
from types import SimpleNamespace
from typing import NamedTuple


class Animal:
    legs = 4

    def __init__(self, name):
        self.name = name

    def greet(self):
        return "I am " + self.name

    @property
    def double(self):
        return self.legs * 2

    @classmethod
    def make(cls):
        return cls("made")

    @staticmethod
    def plain(x):
        return x + 1


#? class Animal
Animal
#? instance of Animal
cat = Animal("cat")
#? str cat
cat.name
#? int 4
cat.legs
#? int 8
cat.double
#? str I am cat
cat.greet()
#? method greet
cat.greet
#? instance of Animal
Animal.make()
#? int 2
cat.plain(1)
cat.legs = 3
#? int 6
cat.double
#? int 4
Animal.legs


class Bird(Animal):
    legs = 2

    def __init__(self, name):
        super().__init__(name + "!")
        self.wings = 2


bird = Bird("owl")
#? str owl!
bird.name
#? int 4
bird.double
#? instance of Bird
Bird.make()
#? bool True
isinstance(bird, Animal)
#? int 2
getattr(bird, "wings")
#? int 7
getattr(bird, "tail", 7)
#? bool True
hasattr(bird, "wings")
setattr(bird, "tail", 1)
#? int 1
bird.tail


class Box:
    def __init__(self):
        self.items = {}

    def __getitem__(self, key):
        return self.items[key]

    def __setitem__(self, key, item):
        self.items[key] = item

    def __len__(self):
        return 5

    def __call__(self, x):
        return x * 2

    def __enter__(self):
        return "entered"

    def __exit__(self, *error):
        pass

    def __add__(self, other):
        return 42

    def __getattr__(self, name):
        return "missing " + name


box = Box()
box["a"] = 1
#? int 1
box["a"]
#? int 5
len(box)
#? int 6
box(3)
#? str missing lid
box.lid
with box as inside:
    #? str entered
    inside
#? int 42
box + 1


@dataclass
class Point:
    x: int
    y: int = 2
    tags: list = field(default_factory=list)


#? instance of Point
point = Point(1)
#? int 1
point.x
#? int 2
point.y
#? unknown
point.tags
#? int 9
replace(point, x=9).x


class Pair(NamedTuple):
    left: int
    right: int = 3


#? int 3
Pair(1).right


class Color(Enum):
    RED = 1


#? int 1
Color.RED.value
space = SimpleNamespace(depth=3)
#? int 3
space.depth
