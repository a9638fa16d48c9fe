"""Claims about `place`, one per file."""
