"""Training adapters and their rivals on files."""
