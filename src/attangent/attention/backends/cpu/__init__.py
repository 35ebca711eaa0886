"""Attention with a prefix in compiled C: both passes over many queries, and the merge of decoding."""
