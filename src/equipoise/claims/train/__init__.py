"""Claims about `train`, one per file."""
