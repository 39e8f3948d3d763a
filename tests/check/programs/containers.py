"""Lists, tuples, sets, dicts and what the standard library adds."""
import copy
from collections import OrderedDict, defaultdict, deque

#? list of 3
items = [1, "two", 3.0]
#? str two
items[1]
#? list of 2
items[1:]
items.append(4)
#? list of 4
items
#? int 4
items.pop()
#? list of 3
items
items[0] = 10
#? int 10
items[0]
items.extend([5, 6])
#? int 5
len(items)
items.insert(0, "front")
#? str front
items[0]
items.clear()
#? list of 0
items
#? list of 4
[1, 2] + [3, 4]
#? list of 4
[1, 2] * 2
#? list of 3
[0, *(1, 2)]
#? tuple of 2
tuple([1, 2])
#? set of 0
set()
#? dict of 2
table = {"a": 1, "b": 2}
#? int 1
table["a"]
#? int 2
table.get("b")
#? None
table.get("c")
#? int 0
table.get("c", 0)
table["c"] = 3
#? dict of 3
table
#? int 3
table.pop("c")
#? dict of 2
table
table.update(d=4)
#? int 4
table["d"]
#? bool True
"a" in table
#? int 8
table.setdefault("e", 8)
#? dict of 3
{**{"x": 1, "y": 2}, "z": 3}
#? dict of 2
dict(a=1, b=2)
#? list of 2
list(dict(a=1, b=2).keys())
#? list of 2
list({"a": 1, "b": 5}.values())
#? int 5
list({"a": 1, "b": 5}.values())[1]
#? deque of 2
queue = deque([1, 2])
#? int 1
queue.popleft()
#? int 5
OrderedDict(a=5)["a"]
groups = defaultdict(list)
groups["k"].append(1)
#? list of 1
groups["k"]
alias = shared = [1]
alias.append(2)
#? list of 2
shared
twin = copy.copy(shared)
twin.append(3)
#? list of 2
shared
del table["a"]
#? bool False
"a" in table
#? bool
bool([])
#? bool True
all([1, 2])
#? bool True
any([0, 2])
