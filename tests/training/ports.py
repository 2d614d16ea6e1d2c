"""The port and environment of processes that train together."""

import os
import socket

# XLA starts independent collectives of a CPU program as threads become free, so two
# processes may start them in different orders, and wait for each other forever.
IN_ORDER = "--xla_cpu_multi_thread_eigen=false"


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def environment(**more):
    """Return the environment of one of several processes.

    Without a compilation cache: who finds a program there waits for who does not, and
    gives up after 30 seconds.
    """
    flags = f"{os.environ.get('XLA_FLAGS', '')} {IN_ORDER}"
    own = {"XLA_FLAGS": flags, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    return os.environ | own | more
