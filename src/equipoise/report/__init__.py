"""What a run shows of itself: one self-contained HTML page, readable offline and years later."""
