# %% [markdown]
# # Compress a handbook and talk to it
#
# A language model that is to answer from a handbook usually gets the whole handbook in front of every question.
# It then stores two numbers per handbook token, layer and channel (the *KV cache*), and reads them again for
# every word it writes.
#
# `attangent.compress` replaces the handbook by a few *virtual tokens* in each attention layer. They are not words.
# They are numbers, chosen so that attention gives almost the same result as with the handbook.
#
# In this tutorial you
#
# 1. ask a small model questions with the handbook and without it,
# 2. compress the handbook,
# 3. ask again and count the answers that are still right,
# 4. save the result, load it and chat.
#
# You need `pip install "attangent[adapters]"` and a chat model. SmolLM2-135M-Instruct is small enough for a laptop.

# %%
import os
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import attangent
from attangent.compression import ChatSession

SMALL = "TUTORIAL_SMALL" in os.environ  # the tests run this page with a toy model
name = os.environ.get("TUTORIAL_CHAT_MODEL", "HuggingFaceTB/SmolLM2-135M-Instruct")
tokenizer = AutoTokenizer.from_pretrained(name)
model = AutoModelForCausalLM.from_pretrained(name).eval()
handbook = Path("data/handbook.txt").read_text()
if SMALL:
    handbook = handbook[:600]
print(handbook[:300], "...")

# %% [markdown]
# ## Ask with the handbook and without it
#
# The handbook is invented, so the model cannot know the answers by heart. An answer counts as right if it contains
# the word we look for.

# %%
questions = {
    "Who is the director of the museum?": "Whitlow",
    "Who is the head miller?": "Renn",
    "When was the mill built?": "1791",
    "What is the wheel of the mill made of?": "oak",
    "What is the cafe of the museum called?": "Copper Spoon",
    "What is the password of the archive?": "marigold",
    "Where does the key of the tower hang?": "clock",
    "Where is the first aid box kept?": "kitchen",
    "What is the cat of the museum called?": "Pepper",
    "Who is the guide for school classes?": "Marlow",
}


def ask(question: str, system: str | None = None) -> str:
    """The model's answer by plain transformers, with an optional system message in front."""
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": question})
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    ids = tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids
    with torch.no_grad():
        out = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False, pad_token_id=0
        )
    return tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True).strip()


answers = pd.DataFrame({"question": list(questions)})
answers["no handbook"] = [ask(question) for question in questions]
answers["full handbook"] = [ask(question, handbook) for question in questions]
answers

# %% [markdown]
# ## Compress
#
# One call. `size=64` keeps 64 virtual tokens per attention head on average; heads that look up facts get more,
# others fewer. The handbook goes in as the system message of a chat, because that is how it will be used.

# %%
found = attangent.compress(
    model, tokenizer, [{"role": "system", "content": handbook}], size=16 if SMALL else 64
)
config = model.config
head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
full_bytes = found.position_offset * config.num_hidden_layers * config.num_key_value_heads * head * 2 * 4
print(f"the handbook has {found.position_offset} tokens: {full_bytes / 1e6:.1f} MB of KV cache")
print(f"compressed: {found.number_of_bytes / 1e6:.1f} MB, {found.number_of_bytes / full_bytes:.0%} of it")

# %% [markdown]
# ## Ask again
#
# `ChatSession` puts the compressed handbook in front of a chat. Each question starts a new chat here.

# %%
answers["compressed"] = [ChatSession(model, tokenizer, found).say(question, 24) for question in questions]
expected = list(questions.values())
columns = ["no handbook", "compressed", "full handbook"]
right = {
    column: sum(word.lower() in said.lower() for word, said in zip(expected, answers[column], strict=True))
    for column in columns
}
answers[["question", "compressed"]]

# %%
figure, (left, middle) = plt.subplots(1, 2, figsize=(8, 2.6), layout="constrained")
colours = ["#b8b8b8", "#c0563b", "#3a7ca5"]
left.barh(columns, [right[column] for column in columns], color=colours)
left.set(xlim=(0, len(questions)), title=f"right answers of {len(questions)}")
middle.barh(columns, [0, found.number_of_bytes / 1e6, full_bytes / 1e6], color=colours)
middle.set(title="memory for the handbook, MB", yticks=[])
for axes in (left, middle):
    axes.spines[["top", "right"]].set_visible(False)
print(right)

# %% [markdown]
# ## Save, load, chat
#
# The folder holds two files in the layout of peft: `adapter_config.json` and `adapter_model.safetensors`. A chat
# remembers what was said before. With `budget=400` old turns are compressed too, once 400 tokens have been said.

# %%
found.save(model, "handbook-adapter")
chat = ChatSession.load(model, tokenizer, "handbook-adapter", budget=400)
print(chat.say("What is the cat of the museum called?", 24))
print(chat.say("And on which day is the museum closed?", 24))

# %% [markdown]
# ## What next
#
# - On the command line the same is one line, and it looks for the smallest size that keeps 95 % of the answers:
#   `attangent compress --model HuggingFaceTB/SmolLM2-135M-Instruct --prompt handbook.txt --out handbook`, then
#   `attangent chat --model HuggingFaceTB/SmolLM2-135M-Instruct --adapter handbook`.
# - Ten questions show how it works, not how good it is. Measured comparisons with other methods are on the page
#   [Compress a prompt](../compress.md).
