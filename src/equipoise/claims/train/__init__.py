"""Claims about `train`, one a file."""
