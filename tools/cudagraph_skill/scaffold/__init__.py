"""Write a CUDA-graph program for a workflow, and verify it on the GPU.

`skill scaffold manual --training --into step.py --verify`, step by step:

1. `file.options` resolves the workflow's name and builds an `Options`; `rules.checked` refuses options that clash and names
   the nearest that work. `options.py` declares each workflow and option once.
2. `file.write` takes the releases from `--for` or from the user's interpreter (`versions.choose`, `versions.installed`), and
   `render.program` renders `templates/*.jinja`.
3. `file.save` writes the file.
4. `receipt.verify` runs `guest/verify.py` on it in the user's interpreter (`process.run` limits the time, `capture.keeper`
   kills what is left), and makes a `Receipt` of its events. After a failure it runs the eager way, `explained` adds the
   likely cause, and `receipt.write` saves step.receipt.json.
5. `output.text` and `output.data` format all of this for people and for programs.

`skill recommend` answers with `recommend.recommend`: the decision flow of SKILL.md, from `Answers` to an `Options`.
"""
