"""How many examples a test of Hypothesis tries: all that it asks for in the profile "deep", a share in "quick"."""

from __future__ import annotations

from typing import Any

from hypothesis import settings


def at_most(examples: int, **others: Any) -> settings:
    """Return the settings of a test that tries this many examples in the profile "deep"."""
    return settings(max_examples=max(1, examples * settings.default.max_examples // 100), deadline=None, **others)
