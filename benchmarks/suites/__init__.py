"""What is measured, one folder per tool."""
