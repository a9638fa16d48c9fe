"""MNIST, and anything in its file format: grey images and labels 0..9 in four idx files, plain or gzipped."""

import gzip
import struct
import zlib
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from equipoise.data.dataset import Dataset
from equipoise.data.split import Floats, Integers
from equipoise.errors import InputError

CLASSES = 10
TRAIN = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TEST = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
UNSIGNED_BYTE = 0x08  # third byte of the magic number; the fourth is the number of axes


def mnist(folder: str | Path) -> Dataset:
    """The four files of a folder: pixels in [0, 1], one image in each row, training and held-out part as published."""
    folder = Path(folder)
    if not folder.is_dir():
        names = ", ".join(TRAIN + TEST)
        raise InputError(
            f"no folder {folder} for MNIST; give the folder that holds {names} (each plain or .gz)", code="file.missing"
        )
    files = [_find(folder, name) for name in TRAIN + TEST]
    X, y = _images_with_labels(*files[:2])
    X_test, y_test = _images_with_labels(*files[2:])
    if X.shape[1] != X_test.shape[1]:
        raise _damaged(files[2], f"{X_test.shape[1]} pixels an image, but {X.shape[1]} in {files[0]}")
    return Dataset("mnist", X, y, X_test, y_test, CLASSES)


def _damaged(path: Path, problem: str) -> InputError:
    return InputError(f"{path}: {problem}", code="file.damaged")


def _find(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise InputError(
        f"{folder} has no file {name}; MNIST needs {', '.join(TRAIN + TEST)} (each plain or .gz)", code="file.missing"
    )


def _images_with_labels(images: Path, labels: Path) -> tuple[Floats, Integers]:
    pixels, y = _read_idx(images, axes=3), _read_idx(labels, axes=1)
    if len(pixels) != len(y):
        raise _damaged(labels, f"{len(y)} labels for the {len(pixels)} images of {images.name}")
    if pixels.size == 0:
        raise _damaged(images, f"no pixels in it (shape {' x '.join(map(str, pixels.shape))})")
    if y.max() >= CLASSES:
        row = int(np.argmax(y >= CLASSES))
        raise _damaged(labels, f"label {y[row]} at position {row}, expected 0 to {CLASSES - 1}")
    flat = pixels.reshape(len(pixels), -1)
    return np.divide(flat, 255.0, dtype=np.float64), y.astype(np.int64)


def _read_idx(path: Path, axes: int) -> NDArray[np.uint8]:
    """An idx file: magic number, then one big-endian length for each axis, then the bytes."""
    content = _content(path)
    header = 4 + 4 * axes
    if len(content) < header:
        raise _damaged(path, f"truncated, {len(content)} bytes where the header alone takes {header}")
    magic, *shape = struct.unpack(f">{1 + axes}I", content[:header])
    expected = UNSIGNED_BYTE << 8 | axes
    if magic != expected:
        kind = "images" if axes == 3 else "labels"
        raise _damaged(path, f"magic number 0x{magic:08x}, expected 0x{expected:08x} (idx file of {kind})")
    found, promised = len(content) - header, prod(shape)
    if found != promised:
        lengths = " x ".join(map(str, shape))
        problem = "truncated" if found < promised else "too long"
        raise _damaged(path, f"{problem}, {found} bytes of data, expected {promised} ({lengths}, from the header)")
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape)


def _content(path: Path) -> bytes:
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        with gzip.open(path) as file:
            return file.read()
    except EOFError:
        raise _damaged(path, "truncated, the gzip stream has no end; copy or download it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise _damaged(path, f"not a sound gzip file ({error}); an unpacked file goes without .gz") from None
