"""Claims about `share`, one per file."""
