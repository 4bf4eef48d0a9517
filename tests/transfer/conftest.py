"""A store with everything that is hard to carry."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.transfer.files import furnish

Make = Callable[[str], str]


@pytest.fixture
def make(new_store: Callable[[str], str], open_source: Callable[[str], str]) -> Make:
    """Another empty source, of any format."""
    return lambda form: open_source(new_store(form))


@pytest.fixture
def full(source: str) -> str:
    """A source of each format with sessions of several apps and users."""
    furnish(source)
    return source
