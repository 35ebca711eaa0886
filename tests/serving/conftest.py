"""A tiny model with a tokenizer of letters, three prefixes and a service that serves them."""

import pytest
import torch

from attangent.adapters import attention_layers
from attangent.adapters.hub import load_causal_lm
from attangent.attention import RaggedState
from attangent.compression import CompressedPrompt
from attangent.compression.prompt import fingerprint
from attangent.serving import ServeSettings, build_service, create_app
from tests.compression.cases import TEMPLATE, tiny_llama

LETTERS = "\n" + "".join(map(chr, range(32, 127)))
PREFIXES = {"red": 40, "green": 75, "blue": 110}
"""Position offsets by name."""
END = 127


def save_letters(folder, model=None):
    """Save a model with one token per letter; token 127 ends a text."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {letter: index for index, letter in enumerate(LETTERS)} | {"[UNK]": 126, "[END]": END}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", eos_token="[END]")
    wrapped.chat_template = TEMPLATE
    wrapped.save_pretrained(folder)
    network = tiny_llama(layers=2, context=1024) if model is None else model
    network.generation_config.eos_token_id = END
    network.save_pretrained(folder)
    return folder


def drawn_prompt(network, tokenizer, offset, seed):
    """A compressed prompt of random virtual tokens, of another number per head."""
    draw = torch.Generator().manual_seed(seed)
    states = {}
    for layer in attention_layers(network):
        sizes = [4 + 3 * head + seed for head in range(layer.kv_heads)]
        keys, values = ([3 * torch.randn(r, layer.key_size, generator=draw) for r in sizes] for _ in range(2))
        masses = [torch.rand(r, generator=draw) + 0.5 for r in sizes]
        states[layer.name] = RaggedState.of(keys, values, masses)
    return CompressedPrompt(states, offset, 8, "recall", ("system",), fingerprint(tokenizer))


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    return save_letters(tmp_path_factory.mktemp("letters"))


@pytest.fixture(scope="session")
def prefix_folders(model_folder, tmp_path_factory):
    network, tokenizer = load_causal_lm(str(model_folder))
    folders = {}
    for seed, (name, offset) in enumerate(PREFIXES.items()):
        folders[name] = tmp_path_factory.mktemp(name)
        drawn_prompt(network, tokenizer, offset, seed).save(network, folders[name])
    return folders


@pytest.fixture
def make_service(model_folder, prefix_folders, tmp_path):
    """Build services with these settings; all are stopped at the end."""
    services = []

    def make(adapters=None, store=None, **settings):
        network, tokenizer = load_causal_lm(str(model_folder))
        service = build_service(
            str(model_folder),
            network,
            tokenizer,
            ServeSettings(port=0, **settings),
            store or tmp_path / "store",
            prefix_folders,
            adapters,
        )
        services.append(service)
        return service

    yield make
    for service in services:
        if service.engine.is_alive:
            service.stop()


@pytest.fixture
def client(make_service):
    """A client of a running service; `client.app.state.service` is the service."""
    from fastapi.testclient import TestClient

    with TestClient(create_app(make_service()), base_url="http://127.0.0.1") as client:
        yield client
