"""Time and profile one way of running one workload, in the user's interpreter: torch and the standard library only.

`measure.run` takes a request: it makes the workload (`workloads`), a function that runs a step of it in one way (`ways`), and
times it, or profiles it as the blog did. A process does one of the two, once.
"""
