import pytest

from attangent.adapters import NTKConfig
from attangent.adapters.files.card import is_our_card, model_card


def test_the_card_says_what_the_adapter_is():
    card = model_card("someone/model", "LlamaForCausalLM", NTKConfig(), 7, 12345)
    for part in ("base_model: someone/model", "12,345 numbers in 7 attention layers", "features `learned`"):
        assert part in card


def test_our_own_card_is_known_again(tmp_path):
    path = tmp_path / "README.md"
    assert is_our_card(path)
    path.write_text(model_card("", "GPT2LMHeadModel", NTKConfig(), 1, 1))
    assert is_our_card(path)


@pytest.mark.parametrize("text", ["", "# My adapter\n", "---\nlibrary_name: peft\n"])
def test_other_cards_are_not_ours(text, tmp_path):
    (tmp_path / "README.md").write_text(text)
    assert not is_our_card(tmp_path / "README.md")


def test_a_link_is_not_ours(tmp_path):
    (tmp_path / "README.md").symlink_to(tmp_path / "elsewhere")
    assert not is_our_card(tmp_path / "README.md")
