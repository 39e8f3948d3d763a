"""Loops and comprehensions."""
import itertools
import sys

total = 0
for i in range(3):
    #? int 0 / int 1 / int 2
    i
    total += i
#? int 3
total
for i in (1, 2, 3):
    if i == 2:
        break
#? int 2
i
odd = []
for i in range(5):
    if i % 2 == 0:
        continue
    odd.append(i)
#? list of 2
odd
#? int 3
odd[-1]
for place, letter in enumerate("ab"):
    #? str a / str b
    letter
for left, right in zip([1, 2], ["x", "y"]):
    #? str x / str y
    right
n = 0
while n < 4:
    n += 1
#? int 4
n
for i in []:
    never = 1
else:
    never = 2
#? int 2
never
#? list of 3
squares = [x * x for x in range(3)]
#? int 4
squares[2]
#? list of 2
some = [x for x in range(4) if x % 2]
#? list of 6
products = [x * y for x in range(2) for y in range(3)]
#? set of 2
unique = {x for x in (1, 2)}
#? dict of 2
table = {x: x + 1 for x in (1, 2)}
#? int 3
table[2]
#? int 6
sum(x for x in (1, 2, 3))
#? list of unknown length
many = [x for x in range(len(sys.argv))]
#? list of 4
list(itertools.chain([1, 2], [3, 4]))
#? list of 3
list(map(str, (1, 2, 3)))
#? list of 3
sorted([3, 1, 2])
#? list of 3
list(reversed([1, 2, 3]))
for key, number in {"a": 1, "b": 2}.items():
    #? int 1 / int 2
    number
