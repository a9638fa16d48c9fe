"""How tests ask for a refusal: by its code and the values it names. The sentence around them is free to become better."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from equipoise.errors import InputError


@contextmanager
def refused(code: str, *named: object) -> Iterator[pytest.ExceptionInfo[InputError]]:
    """What is done inside raises InputError with this code, in one line that has each of these values."""
    with pytest.raises(InputError) as caught:
        yield caught
    message = str(caught.value)
    assert caught.value.code == code, f"refused as {caught.value.code!r}: {message}"
    assert "\n" not in message
    for value in named:
        assert str(value) in message, message
