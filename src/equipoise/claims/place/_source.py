"""Where these claims stand, and what of it could not be read."""

ABSTRACT = "arXiv 2108.02917, abstract and introduction"
UNREAD = (
    "all but the abstract and introduction; the model is re-derived and the constants are recalled, so the sentence is"
    " judged and no number of the paper."
)
