"""JAX with eight devices on this CPU: whoever uses JAX in a test imports it from here, before anything else does."""

from __future__ import annotations

import pytest

jax = pytest.importorskip("jax", reason="these captures need JAX")
jax.config.update("jax_num_cpu_devices", 8)  # refused once devices are in use
