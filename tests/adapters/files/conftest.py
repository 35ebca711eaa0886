import shutil

import pytest

from attangent.adapters import NTKConfig, attach, save_adapter
from tests.adapters.models import inputs, tiny


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapter")
    config = NTKConfig(layers=r"layer\.1", modules_to_save=("classifier",))
    save_adapter(attach(tiny("bert"), config, calibration=inputs("bert")), folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "copy")
