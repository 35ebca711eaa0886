"""A small compressed prompt, and a stand-in for llama.cpp's server that runs the same tiny model."""

import json
import struct
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import takewhile

import torch

from attangent._core.files import write_json
from attangent.compression.entry import compress
from attangent.compression.result import filled_cache
from attangent.serving.exports.entry import computed_layers
from attangent.serving.exports.slot_file import interleaved
from tests.compression.cases import ChatLetters, tiny_llama

TEXT = "some text that is long enough to be worth compressing, and then a little more. " * 2
CHAT = [{"role": "system", "content": TEXT}]
SIZE = 48


def write_prompt(folder, method="plain", prompt=CHAT, tokenizer=None):
    """Compress a text for the tiny model; the report has two questions."""
    model = tiny_llama()
    compress(model, tokenizer or ChatLetters(), prompt, size=SIZE, method=method).save(model, folder)
    questions = [
        {"text": "who?", "expected": "x", "fact": 0},
        {"text": "what?", "expected": "y", "fact": 1},
    ]
    write_json(folder / "report.json", {"own": [{"asked": question} for question in questions]})
    return folder


def greedy(model, ids, tokens, cache=None):
    """The most likely tokens, one by one."""
    written = []
    rest = list(ids)
    with torch.no_grad():
        for _ in range(tokens):
            out = model(torch.tensor([rest]), past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            rest = [int(out.logits[0, -1].argmax())]
            written += rest
    return written


def slot_bytes(layers, transposed=False, kind="<f4"):
    """A slot file as llama.cpp writes it, with a header of its own."""
    number = {"<f4": 0, "<f2": 1}[kind]
    parts = [b"a header that changes between releases", struct.pack("<II", transposed, len(layers))]
    for layer in layers:
        rows = interleaved(layer.keys).flatten(1).numpy().astype(kind)
        parts += [struct.pack("<iQ", number, rows[0].nbytes), rows.tobytes()]
    for layer in layers:
        rows = layer.values.flatten(1).numpy().astype(kind)
        if transposed:
            parts += [struct.pack("<iII", number, rows.itemsize, rows.shape[1]), rows.T.tobytes()]
        else:
            parts += [struct.pack("<iQ", number, rows[0].nbytes), rows.tobytes()]
    return b"".join(parts)


class LlamaStandIn:
    """Computes with the tiny model and keeps one slot, which it saves and restores as llama.cpp does."""

    def __init__(self, folder, model=None):
        self.folder = folder
        self.model = model or tiny_llama()
        self.ids: list[int] = []
        self.layers = []
        self.reused: list[int] = []

    def answer(self, path, body):
        if path == "/apply-template":
            return {"prompt": ChatLetters().apply_chat_template(body["messages"], add_generation_prompt=True)}
        if path == "/tokenize":
            return {"tokens": ChatLetters()(body["content"])["input_ids"]}
        if path == "/slots/0?action=erase":
            self.ids = []
            return {"n_erased": 0}
        if path == "/slots/0?action=save":
            (self.folder / body["filename"]).write_bytes(slot_bytes(self.layers))
            return {"n_saved": len(self.ids)}
        if path == "/slots/0?action=restore":
            self.layers = self._read((self.folder / body["filename"]).read_bytes())
            return {"n_restored": len(self.ids)}
        return self._complete(body["prompt"], body["n_predict"])

    def _read(self, content):
        width = self.layers[0].keys[0].numel()
        start = content.index(struct.pack("<iQ", 0, 4 * width))
        count = len(self.ids) * width
        rows = []
        for _ in range(2 * len(self.layers)):
            values = torch.frombuffer(bytearray(content), dtype=torch.float32, count=count, offset=start + 12)
            rows.append(values.view(self.layers[0].keys.shape))
            start += 12 + 4 * count
        half = len(self.layers)
        return [
            type(layer)(torch.cat([rows[i][..., ::2], rows[i][..., 1::2]], dim=-1), rows[half + i])
            for i, layer in enumerate(self.layers)
        ]

    def _complete(self, ids, tokens):
        if ids[: len(self.ids)] != self.ids or not self.ids:
            # llama.cpp would reuse what the slot holds of the same first tokens.
            same = takewhile(lambda pair: pair[0] == pair[1], zip(ids, self.ids, strict=False))
            self.reused.append(len(list(same)))
            self.ids = list(ids)
            self.layers = computed_layers(self.model, ids)
            return {"content": ""}
        pairs = [(layer.keys.transpose(0, 1), layer.values.transpose(0, 1)) for layer in self.layers]
        written = greedy(self.model, ids[len(self.ids) :], tokens, filled_cache(pairs, 1))
        return {"content": ChatLetters().decode(written)}


@contextmanager
def serving(stand_in):
    """Serve a stand-in on a free port and yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = json.dumps(stand_in.answer(self.path, body)).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
