"""Questions about a prompt: made from it, asked behind it, and judged."""
