"""Type names for the arrays that every module passes around."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
AnyArray = NDArray[Any]
