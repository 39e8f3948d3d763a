"""Ask the driver whether other programs use the GPU: times beside them are not those of a quiet one."""

from __future__ import annotations

import os
import subprocess
import time

_BUSY = 10  # percent of the time
_LOOKS, _PAUSE = 3, 0.7  # seconds: the driver's figure is of up to the last second, in which a run of ours may have ended


def utilization() -> str:
    """Return a sentence if something uses the GPU that CUDA takes first; "" if not, or if there is no way to know."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"
    command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-i", chosen]
    least = 100
    for number in range(_LOOKS):
        try:
            said = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
            least = min(least, int(said.split()[0]))
        except (OSError, subprocess.SubprocessError, ValueError, IndexError):
            return ""
        if least < _BUSY:
            return ""
        time.sleep(_PAUSE if number + 1 < _LOOKS else 0)
    return f"another program uses this GPU ({least} % utilization before the first process of ours): do not compare these times"
