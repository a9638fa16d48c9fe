"""MNIST from idx files: small ones written here byte by byte, and the real ones where they are at hand."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from equipoise.data import mnist
from refusals import refused

TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
TEST_IMAGES, TEST_LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
ALL_NAMES = f"{TRAIN_IMAGES}, {TRAIN_LABELS}, {TEST_IMAGES}, {TEST_LABELS}"


def images(count, rows=2, columns=3):
    """Pixels count up: 0, 1, 2, ... modulo 256, row by row, image by image."""
    pixels = bytes(i % 256 for i in range(count * rows * columns))
    return struct.pack(">IIII", 0x00000803, count, rows, columns) + pixels


def labels(*values):
    return struct.pack(">II", 0x00000801, len(values)) + bytes(values)


@pytest.fixture
def folder(tmp_path):
    """A sound set: three training images and one held out, of 2 x 3 pixels."""
    (tmp_path / TRAIN_IMAGES).write_bytes(images(3))
    (tmp_path / TRAIN_LABELS).write_bytes(labels(7, 0, 9))
    (tmp_path / TEST_IMAGES).write_bytes(images(1))
    (tmp_path / TEST_LABELS).write_bytes(labels(4))
    return tmp_path


def test_pixels_and_labels_land_where_they_belong(folder):
    """One image a row, row-major, divided by 255; labels as written."""
    data = mnist(folder)
    assert_array_equal(data.X, np.arange(18).reshape(3, 6) / 255)
    assert_array_equal(data.y, [7, 0, 9])
    assert_array_equal(data.X_test, np.arange(6).reshape(1, 6) / 255)
    assert_array_equal(data.y_test, [4])
    assert data.classes == 10


def test_arrays_are_ready_for_kernels(folder):
    """float64, int64, C-contiguous."""
    data = mnist(str(folder))
    assert (data.X.dtype, data.y.dtype) == (np.float64, np.int64)
    assert data.X.flags.c_contiguous


def test_gzipped_files_are_the_same_data(folder):
    """Each file may be plain or .gz, also mixed."""
    plain = mnist(folder)
    for name in (TRAIN_IMAGES, TEST_LABELS):
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
        (folder / name).unlink()
    assert_array_equal(mnist(folder).X, plain.X)
    assert_array_equal(mnist(folder).y_test, plain.y_test)


def test_a_missing_folder_names_what_it_should_hold(tmp_path):
    """The four names, so the user knows which folder is meant."""
    with refused("file.missing", tmp_path / "no", ALL_NAMES):
        mnist(tmp_path / "no")


def test_a_missing_file_is_named(folder):
    """The file looked for comes first, then all that are needed."""
    (folder / TEST_LABELS).unlink()
    with refused("file.missing", f"{folder} has no file {TEST_LABELS}", ALL_NAMES):
        mnist(folder)


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        (TRAIN_IMAGES, labels(*range(10), *range(10)), ("0x00000801", "0x00000803", "images")),
        (TRAIN_LABELS, images(3), ("0x00000803", "0x00000801", "labels")),
        (TRAIN_IMAGES, b"", ("0 bytes", 16)),
        (TEST_LABELS, labels(4)[:7], ("7 bytes", 8)),
        (TRAIN_IMAGES, images(3)[:-1], ("17 bytes", 18, "3 x 2 x 3")),
        (TRAIN_LABELS, labels(7, 0, 9) + b"\0", ("4 bytes", "expected 3")),
        (TRAIN_LABELS, labels(7, 0), ("2 labels", "3 images", TRAIN_IMAGES)),
        (TRAIN_LABELS, labels(7, 10, 11), ("label 10", "position 1", "0 to 9")),
        (TRAIN_IMAGES, images(3, 0, 3), ("3 x 0 x 3",)),
        (TEST_IMAGES, images(1, 2, 2), ("4 pixels", "6 in ", TRAIN_IMAGES)),
    ],
)
def test_a_damaged_file_is_named_with_what_was_found(folder, name, content, found):
    """Wrong kind of file, cut short, too long, or at odds with its companion."""
    (folder / name).write_bytes(content)
    with refused("file.damaged", f"{folder / name}: ", *found):
        mnist(folder)


def test_a_gzip_file_cut_short(folder):
    """A download that broke off."""
    (folder / TRAIN_IMAGES).unlink()
    (folder / f"{TRAIN_IMAGES}.gz").write_bytes(gzip.compress(images(3))[:-9])
    with refused("file.damaged", f"{TRAIN_IMAGES}.gz: truncated"):
        mnist(folder)


def test_a_plain_file_that_calls_itself_gzip(folder):
    """Renamed instead of unpacked."""
    (folder / TRAIN_IMAGES).rename(folder / f"{TRAIN_IMAGES}.gz")
    with refused("file.damaged", f"{TRAIN_IMAGES}.gz: not a sound gzip file"):
        mnist(folder)


@pytest.fixture(scope="module")
def real(shared_data):
    folder = shared_data / "mnist"
    if not folder.is_dir():
        pytest.skip(f"no real MNIST: {folder} is not a folder; set EQUIPOISE_DATA to the one that holds mnist/")
    return mnist(folder)


def test_real_mnist_has_its_published_size(real):
    """60,000 training images and 10,000 held out, 28 x 28 pixels from black to white."""
    assert (real.X.shape, real.X_test.shape) == ((60_000, 784), (10_000, 784))
    assert (real.X.min(), real.X.max()) == (0.0, 1.0)
    assert real.X.flags.c_contiguous


def test_real_mnist_has_its_published_labels(real):
    """It begins with the famous 5, 0, 4, 1, 9, and the class counts are the published ones."""
    assert real.y[:5].tolist() == [5, 0, 4, 1, 9]
    assert np.bincount(real.y).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(real.y_test).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
