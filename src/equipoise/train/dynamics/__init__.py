"""Rules by which nodes act on what they hear, one file each; a half of a run is one of them on a region."""
