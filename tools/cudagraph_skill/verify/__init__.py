"""Run again on this GPU what the claims of card.yaml rest on.

The life of `skill verify`:

1. `card.claims` reads card.yaml: each claim, where it was seen, and its `probe`, which says what to run.
2. `probes.verified` asks the user's interpreter for its torch and GPUs, and takes one claim after the other. `fences` are code
   of the references, `errors` programs that raise what an entry describes and do the same right, `hazards` functions that
   `check --run` judges, `scaffolds` programs that `skill scaffold` writes, `bench` a workload whose fastest way is known.
3. `programs.ended` runs fences and errors in processes of their own, several at once, each under a deadline; the others run as
   their commands run them.
4. `output` formats what held, what did not, and what was not run, with the reason.
"""
