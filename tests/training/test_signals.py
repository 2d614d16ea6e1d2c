"""Signals of several processes."""

import contextlib
import types

import jax
import pytest

from dicejax.errors import Stopped
from dicejax.training import processes


@pytest.mark.parametrize("service", [True, False])
def test_the_preemption_service_is_asked_where_it_is_on(monkeypatch, service):
    # JAX raises an error where it is off.
    reached = {True: lambda step: step == 2, False: pytest.fail}[service]
    utils = types.SimpleNamespace(reached_preemption_sync_point=reached)
    monkeypatch.setattr(processes, "multihost_utils", utils)
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setattr(type(jax.config), "jax_enable_preemption_service", service)
    stop = processes.StopRequest(0)
    stop.after(1)
    with pytest.raises(Stopped) if service else contextlib.nullcontext():
        stop.after(2)
