"""Capture a callable on the GPU, replay it, and compare with eager.

The life of `skill check --run train.py:step --inputs batch`:

1. `options.requests` makes a `request.Request` of the command line; `interpreter.environment_python` names the interpreter
   that has torch.
2. `session.examine` takes one request after the other. `session.Guests` keeps one warm guest, a process of the user's
   interpreter; `host.Guest.ask` sends it the request, passes on what it reports, and kills all of it at the deadline or when it
   needs too much memory; `keeper`, its parent, leaves nothing of it, whoever is killed. `host.run_program` runs the user's
   own program instead, where one was named after `--`.
3. The guest captures and compares (see `guest`). It answers with a verdict, causes by line, and facts about graph and machine.
   `--nproc`, or a torchrun command (`torchrun`), runs it on several ranks: `hub` hears each over a socket and lets them agree,
   `ranks` makes one result of theirs.
4. `session.joined_result` joins the answer with the static check of the same lines. `hazard_of.hazard_of` says which hazard a
   cause is; where the guest ended without an answer, `session` says how it ended and whether eager code or the graph did it.
5. `output.text` and `output.data` format a `result.CaptureResult`; `output.exit_code` is 0 to 4.

`skill map` sends the same request with `map`: the guest measures the parts of the call, and checks them if the whole fails.
`region_map` makes predictions and the order of fixes of its answer, `map_output` the text and the JSON.
`skill decide` sends it with `cost`: the guest times the call, eager and as a graph, and counts its work (`cost`); the package
`decide` judges that.
"""
