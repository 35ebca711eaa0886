"""Compress a text to a few virtual tokens, save them, and ask the model about the text.

python examples/compress.py HuggingFaceTB/SmolLM2-135M-Instruct guide.md "Who is the mayor?"
"""

import sys
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer

import attangent
from attangent.compression import ChatSession

name, text, question = sys.argv[1:4]
model = AutoModelForCausalLM.from_pretrained(name).eval()
tokenizer = AutoTokenizer.from_pretrained(name)
messages = [{"role": "system", "content": Path(text).read_text()}]

prompt = attangent.compress(model, tokenizer, messages, size=64)
print(f"{prompt.position_offset} tokens of the prompt are {prompt.size} virtual tokens per head now")
prompt.save(model, "compressed")  # for attangent.load_adapter, `attangent chat` and `attangent serve`
print("answer:", ChatSession(model, tokenizer, prompt).say(question, 40))
