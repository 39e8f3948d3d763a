"""Names, scalars, operators."""
#? int 3
a = 3
#? float 1.5
b = 1.5
#? str abc
c = "abc"
#? None
d = None
#? bool True
e = a == 3
#? int 7
f = a * 2 + 1
#? float 4.5
g = a + b
#? str abc-3
h = f"{c}-{a}"
#? int 10
a += 7
#? int -10
i = -a
#? bool False
j = not a
#? int 3
k = 10 // 3
#? int 1024
m = 1 << 10
#? bool True
n = 1 < a <= 10
#? str ABC
o = c.upper()
#? str b
p = c[1]
#? bool True
q = "b" in c
first, (second, *others) = 1, (2, 3, 4)
#? int 2
second
#? list of 2
others
x = y = 5
#? int 5
y
#? int 8
z = (w := 8)
#? int 8
w
#? tuple of 2
pair = 1, 2
one, two = two, one = pair
#? int 2
one
#? int 4
length = len("four")
#? int 2
smaller = min(2, 5)
#? int 12
converted = int("12")
#? str 12
text = str(12)
#? int 6
total = sum([1, 2, 3])
#? unknown
kind = type(a)
annotated: int = 9
#? int 9
annotated
del annotated
#? unknown
annotated
