import os
import subprocess
import sys
import threading
import time

import torch

calls = 0


def first():
    global calls
    calls += 1
    return calls == 1


def forks(x):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return x * 2


def fork_returns(x):
    global calls
    calls += 1
    if calls <= 3:
        os.fork()
    return x * 2


def os_exit(x):
    os._exit(3)


def sys_exit(x):
    sys.exit(0)


def daemon(x):
    if first():
        subprocess.Popen(["setsid", "sleep", "31337"], start_new_session=True)
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            os.execvp("sleep", ["sleep", "31338"])
    return x * 2


def leaves_thread(x):
    if first():
        threading.Thread(target=lambda: [time.sleep(1) for _ in range(10**9)], daemon=False).start()
    return x * 2


def _poll():
    while True:
        torch.ones(1, device="cuda").item()


def busy_gpu_thread(x):
    if first():
        threading.Thread(target=_poll, daemon=True).start()
    return torch.relu(x * 2)


def prints(x):
    if first():
        for _ in range(200):
            sys.stdout.write("x" * (1 << 20))
        sys.stdout.flush()
    return x * 2


def changes_folder(x):
    os.chdir("/tmp")
    return x * x.max().item()


def closes_output(x):
    if first():
        sys.stdout.close()
        sys.stderr.close()
        for fd in (1, 2):
            try:
                os.close(fd)
            except OSError:
                pass
    return x * 2
