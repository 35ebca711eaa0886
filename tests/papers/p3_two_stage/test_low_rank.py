"""Edited models as factors: the same outputs from a smaller file, by our reader and by plain transformers."""

import json

import pytest
import tokenizers
import torch
import transformers

from attangent import AttangentError
from attangent.papers.p3_two_stage.low_rank import CODE_FILE, load_low_rank
from attangent.papers.p3_two_stage.spectrum_edit import edit_spectrum
from attangent.stages import spectrum
from tests.stages.models import made, output

READERS = {
    "ours": load_low_rank,
    "transformers": lambda folder: transformers.AutoModel.from_pretrained(folder, trust_remote_code=True),
}


def size(folder):
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))


@pytest.fixture(autouse=True)
def own_modules(tmp_path_factory, monkeypatch):
    """transformers copies the code of a folder before it runs it: not to the user's own cache."""
    place = str(tmp_path_factory.mktemp("modules"))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", place)
    monkeypatch.syspath_prepend(place)


PAIRS = [("vit", "ours"), *((name, reader) for name in ("llama", "bert", "opt") for reader in READERS)]


@pytest.mark.parametrize(("name", "reader"), PAIRS)
def test_factors_answer_as_the_edited_model_does(name, reader, tmp_path):
    model = made(name)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    edit = edit_spectrum(model, "largest", k=3, targets=["v", "o", "mlp"])
    edit.save(tmp_path / "whole")
    report = edit.save_factors(tmp_path / "factors")
    assert size(tmp_path / "factors") < size(tmp_path / "whole")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    loaded = READERS[reader](tmp_path / "factors").eval()
    with edit:
        torch.testing.assert_close(output(loaded), output(model), rtol=0, atol=1e-5)
    assert json.loads((tmp_path / "factors" / "spectrum_edit.json").read_text())["changes"]
    assert (report.frame["kept"] == 3).all()


def test_only_what_is_smaller_is_in_factors(tmp_path):
    model = made("gpt2")
    edit_spectrum(model, "largest", k=4, targets=["q", "o"]).save_factors(tmp_path)
    ranks = json.loads((tmp_path / "config.json").read_text())["low_rank"]
    assert set(ranks) == {f"transformer.h.{layer}.attn.c_proj" for layer in range(2)}
    kind = transformers.AutoModelForCausalLM
    loaded = kind.from_pretrained(tmp_path, trust_remote_code=True).eval()
    with edit_spectrum(model, "largest", k=4, targets=["q", "o"]):
        torch.testing.assert_close(output(loaded), output(model), rtol=0, atol=1e-5)
    values = spectrum(loaded, ["o"])
    assert (values.query("index >= 4")["value"] < 1e-6).all()


def test_who_does_not_run_its_code_is_refused_and_the_command_reads_it(tmp_path):
    """The known class would read the model without its factors: the type of the configuration forbids it."""
    edit_spectrum(made("llama"), "largest", k=2, targets="o").save_factors(tmp_path)
    with pytest.raises(ValueError, match="trust_remote_code"):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path, trust_remote_code=False)
    values = spectrum(load_low_rank(tmp_path), ["o"])
    assert (values.query("index >= 2")["value"] < 1e-6).all()


def test_the_tokenizer_goes_along(tmp_path):
    letters = {letter: number for number, letter in enumerate("abcdefgh?")}
    core = tokenizers.Tokenizer(tokenizers.models.WordLevel(letters, unk_token="?"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=core, unk_token="?")
    made("llama").save_pretrained(tmp_path / "first")
    tokenizer.save_pretrained(tmp_path / "first")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "first")
    for name, save in (("whole", "save"), ("factors", "save_factors")):
        getattr(edit_spectrum(model, "largest", k=2, targets="o"), save)(tmp_path / name)
        found = transformers.AutoTokenizer.from_pretrained(
            tmp_path / name, trust_remote_code=name == "factors"
        )
        assert found("c")["input_ids"] == [2]


def test_what_is_not_smaller_is_refused(tmp_path):
    with pytest.raises(AttangentError, match=r"no matrix of the edit .* is smaller as factors"):
        edit_spectrum(made("llama"), "largest", rho=0.9).save_factors(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_the_reader_runs_no_code_of_the_folder(tmp_path):
    edit_spectrum(made("llama"), "largest", k=2, targets="o").save_factors(tmp_path)
    (tmp_path / CODE_FILE).write_text("raise RuntimeError('this ran')")
    assert load_low_rank(tmp_path) is not None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"low_rank": None}, "expected a folder written by save_factors"),
        ({"low_rank": {"model.layers.0.self_attn.o_proj": -1}}, "expected a folder written by save_factors"),
        ({"low_rank": {"model.layers.9.nothing": 2}}, r"the ranks name model\.layers\.9\.nothing"),
        ({"architectures": ["os"]}, "which transformers does not have"),
    ],
)
def test_other_folders_are_refused(change, message, tmp_path):
    edit_spectrum(made("llama"), "largest", k=2, targets="o").save_factors(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(AttangentError, match=message):
        load_low_rank(tmp_path)
