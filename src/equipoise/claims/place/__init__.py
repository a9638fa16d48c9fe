"""Claims about `place`, one a file."""
