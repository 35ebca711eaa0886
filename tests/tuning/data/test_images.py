"""Folders of images."""

import pytest
import torch
from PIL import Image

from attangent import AttangentError
from attangent.tuning.data.images import EncodedImages, Pixels, read_images
from tests.adapters.tiny import write_images


def test_a_folder_a_class(tmp_path):
    task = read_images(write_images(tmp_path / "x", 3))
    assert task.labels == ("bright", "dark")
    assert task.targets == (0, 0, 0, 1, 1, 1)
    assert task.take([5, 0]).targets == (1, 0)


def test_pixel_values(tmp_path):
    Image.new("L", (4, 6), 255).save(tmp_path / "grey.png")
    values = Pixels(8, mean=(0.5, 0.0, 1.0), std=(0.5, 1.0, 2.0)).read(tmp_path / "grey.png")
    assert values.shape == (3, 8, 8)
    assert [values[c].unique().tolist() for c in range(3)] == [[1.0], [1.0], [0.0]]


def test_settings_come_from_the_preprocessor():
    config = type("Config", (), {"image_size": (16, 16)})
    assert Pixels.of(config, {"image_mean": [0, 0, 0]}) == Pixels(16, (0, 0, 0))


def test_rows(tmp_path):
    rows = EncodedImages(read_images(write_images(tmp_path / "x", 2)), Pixels(8))
    assert len(rows) == 4
    assert rows[3]["labels"] == 1
    assert rows[0]["pixel_values"].dtype == torch.float32


def test_what_cannot_be_used_is_refused(tmp_path):
    write_images(tmp_path / "x", 1)
    with pytest.raises(
        AttangentError, match="has the classes dark, expected only those of the training data: bright"
    ):
        read_images(tmp_path / "x", labels=("bright",))
    with pytest.raises(AttangentError, match="there is no folder"):
        read_images(tmp_path / "none")
    with pytest.raises(AttangentError, match="0 images in 0 classes"):
        read_images(tmp_path / "x" / "dark")
    (tmp_path / "x" / "empty").mkdir()
    with pytest.raises(AttangentError, match="holds no image"):
        read_images(tmp_path / "x")
    (tmp_path / "bad.png").write_text("no image")
    with pytest.raises(AttangentError, match="cannot be read as an image"):
        Pixels(8).read(tmp_path / "bad.png")
