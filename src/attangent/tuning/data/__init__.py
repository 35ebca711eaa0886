"""Examples from files: labelled texts, texts with numbers, completions and images."""
