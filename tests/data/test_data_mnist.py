"""MNIST from idx files: small ones written here byte by byte, and the real ones where they are at hand."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from equipoise.data import mnist
from equipoise.errors import InputError

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


def refusal(folder):
    """The one line `mnist` answers with, the folder left out."""
    with pytest.raises(InputError) as caught:
        mnist(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(f"{folder}/", "")


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
    assert refusal(tmp_path / "no") == (
        f"no folder {tmp_path / 'no'} for MNIST; give the folder that holds {ALL_NAMES} (each plain or .gz)"
    )


def test_a_missing_file_is_named(folder):
    """The file looked for comes first, then all that are needed."""
    (folder / TEST_LABELS).unlink()
    assert refusal(folder) == (f"{folder} has no file {TEST_LABELS}; MNIST needs {ALL_NAMES} (each plain or .gz)")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            TRAIN_IMAGES,
            labels(*range(10), *range(10)),
            "magic number 0x00000801, expected 0x00000803 (idx file of images)",
        ),
        (TRAIN_LABELS, images(3), "magic number 0x00000803, expected 0x00000801 (idx file of labels)"),
        (TRAIN_IMAGES, b"", "truncated, 0 bytes where the header alone takes 16"),
        (TEST_LABELS, labels(4)[:7], "truncated, 7 bytes where the header alone takes 8"),
        (TRAIN_IMAGES, images(3)[:-1], "truncated, 17 bytes of data, expected 18 (3 x 2 x 3, from the header)"),
        (TRAIN_LABELS, labels(7, 0, 9) + b"\0", "too long, 4 bytes of data, expected 3 (3, from the header)"),
        (TRAIN_LABELS, labels(7, 0), f"2 labels for the 3 images of {TRAIN_IMAGES}"),
        (TRAIN_LABELS, labels(7, 10, 11), "label 10 at position 1, expected 0 to 9"),
        (TRAIN_IMAGES, images(3, 0, 3), "no pixels in it (shape 3 x 0 x 3)"),
        (TEST_IMAGES, images(1, 2, 2), f"4 pixels an image, but 6 in {TRAIN_IMAGES}"),
    ],
)
def test_a_damaged_file_is_named_with_what_was_found(folder, name, content, message):
    """Wrong kind of file, cut short, too long, or at odds with its companion."""
    (folder / name).write_bytes(content)
    assert refusal(folder) == f"{name}: {message}"


def test_a_gzip_file_cut_short(folder):
    """A download that broke off."""
    (folder / TRAIN_IMAGES).unlink()
    (folder / f"{TRAIN_IMAGES}.gz").write_bytes(gzip.compress(images(3))[:-9])
    assert refusal(folder) == f"{TRAIN_IMAGES}.gz: truncated, the gzip stream has no end; copy or download it again"


def test_a_plain_file_that_calls_itself_gzip(folder):
    """Renamed instead of unpacked."""
    (folder / TRAIN_IMAGES).rename(folder / f"{TRAIN_IMAGES}.gz")
    message = refusal(folder)
    assert message.startswith(f"{TRAIN_IMAGES}.gz: not a sound gzip file (")
    assert message.endswith("; an unpacked file goes without .gz")


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
