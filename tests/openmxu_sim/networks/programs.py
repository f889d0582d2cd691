"""Programs that tests of frameworks run in a process of their own."""

import os
import subprocess
import sys


def run_python(*arguments: object, timeout: int = 300, **environment: str) -> str:
    """What Python prints with these arguments; if it fails, the end of its errors is the reason."""
    command = [sys.executable, *map(str, arguments)]
    environ = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout, env=environ)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
