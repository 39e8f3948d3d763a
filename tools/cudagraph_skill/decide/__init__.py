"""Say whether a graph pays: for a call that was measured here, or for a step, from a trace of it that was made anywhere.

A call is measured by the guest (capture/guest/costs.py); `call` judges its Cost, `call_output` writes that.

Of a trace, in: a Chrome trace of torch.profiler (`.json`, `.json.gz`) or an SQLite export of Nsight Systems. Out: a Decision:
what the step takes now, what it would take as one graph, what keeps the GPU waiting, and which calls a capture would refuse.

Life of such a request: `trace.read` finds the reader (`chrome.timeline` or `nsys.timeline`), `steps.measured` cuts the timeline
into steps and measures each, `decision.decide` predicts and judges, `output.text` or `output.data` writes it.
"""

from cudagraph_skill.decide.decision import Decision, decide
from cudagraph_skill.decide.steps import measured
from cudagraph_skill.decide.trace import read

__all__ = ["Decision", "decide", "measured", "read"]
