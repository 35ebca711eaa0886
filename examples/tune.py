"""Give a frozen model a trainable prefix, train it, save it, load it again.

Here a tiny random GPT-2 learns to repeat one sentence. For a model of your own take
`AutoModelForCausalLM.from_pretrained(...)` and batches of your tokenizer.
"""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import attangent

torch.manual_seed(0)
sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 50, "bos_token_id": 0, "eos_token_id": 0}
model = GPT2LMHeadModel(GPT2Config(**sizes, initializer_range=0.3, loss_type="ForCausalLM")).eval()
sentence = torch.randint(50, (1, 12))
batch = {"input_ids": sentence.repeat(4, 1), "attention_mask": torch.ones(4, 12, dtype=torch.long)}

attangent.attach(model, attangent.NTKConfig(), calibration=batch)  # everything else is frozen now
trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
optimiser = torch.optim.AdamW(trained, lr=0.03)
losses = []
for _ in range(60):
    loss = model(**batch, labels=batch["input_ids"]).loss
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
print(f"{sum(p.numel() for p in trained)} numbers trained; loss {losses[0]:.2f} -> {losses[-1]:.2f}")

with tempfile.TemporaryDirectory() as folder, torch.no_grad():
    tuned = model(**batch).logits
    attangent.save_adapter(model, folder)
    attangent.detach(model)  # the base model again, bit for bit
    attangent.load_adapter(model, folder)
    print("loaded model answers the same:", bool(torch.equal(model(**batch).logits, tuned)))
