"""Measure ways of running a step with and without graphs, as a blog published them, and what the clock says of the same ways.

`skill bench`, step by step:

1. `ways` has the workloads, the ways and the published numbers as data.
2. `rounds.measured` runs guest/measure.py in the user's interpreter: a process for each way and round that is timed and never
   profiled, and another one that is profiled.
3. `record` turns the result into JSON and back; `skill bench --show` begins there.
4. `orders` sorts the ways by Self CPU time and by wall time, and says where the two differ, and why.
5. `output` writes text and Markdown, `plot` a figure as SVG, `png` the same with matplotlib.
"""
