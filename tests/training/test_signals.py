"""Signals of several processes, with and without JAX's preemption service."""

import jax
import pytest
from jax.experimental import multihost_utils

from dicejax.errors import Stopped
from dicejax.training.signals import StopRequest


@pytest.mark.parametrize("service", [True, False])
def test_several_processes_ask_the_preemption_service_where_it_is_on(
    monkeypatch, service
):
    def reached(step):
        if not service:
            raise RuntimeError("Preemption sync manager has not been initialized.")
        return step == 2

    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setattr(multihost_utils, "reached_preemption_sync_point", reached)
    before = jax.config.jax_enable_preemption_service
    jax.config.update("jax_enable_preemption_service", service)
    try:
        with StopRequest(0) as stop:
            stop.after(1)
            if service:
                with pytest.raises(Stopped) as stopped:
                    stop.after(2)
                assert (stopped.value.step, stopped.value.status) == (2, 143)
            else:
                stop.after(2)
    finally:
        jax.config.update("jax_enable_preemption_service", before)
