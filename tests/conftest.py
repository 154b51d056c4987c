"""What holds for all tests: one thread in each worker, and how many examples Hypothesis tries."""

from __future__ import annotations

import os

from hypothesis import settings

if "PYTEST_XDIST_WORKER" in os.environ:  # the workers share the processors; tests about threads set their number
    for name in ("CALIBRANT_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")

# `pytest --hypothesis-profile=deep` (so .ci/run) tries every example that a test asks for, plain `pytest` a fifth.
settings.register_profile("deep", deadline=None, max_examples=100)
settings.register_profile("quick", deadline=None, max_examples=20)
settings.load_profile("quick")
