"""Compressed prompts for engines that hold an ordinary KV cache: vLLM and llama.cpp."""
