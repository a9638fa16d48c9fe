"""Who knows what in a run on a hostile network: which end of a link, or which node, every remembered array belongs to."""

from __future__ import annotations

from equipoise.engine.shards.layout import Axis

NODE = Axis("node")
REPLICATED = Axis("same")  # the mirror alone changes it
SENT, HEARD = Axis("link", end="sender"), Axis("link", end="receiver")
SENT_IN_WINDOW = Axis("link", end="sender", at=1)
COUNT = Axis("sum")

MAIL = {
    "latest": HEARD,
    "acked": SENT,
    "fresh": HEARD,
    "bad": SENT,
    "met": SENT,
    "due": SENT_IN_WINDOW,
    "number": SENT_IN_WINDOW,
    "ack": SENT_IN_WINDOW,
    "counts": COUNT,
}
POST = {
    "post.held": HEARD,
    "post.said": SENT_IN_WINDOW,
    "post.unit": SENT_IN_WINDOW,
    "post.bits_sent": SENT,
    "post.tally": COUNT,
}
LEDGER = {
    "shares": NODE,
    "escrow": NODE,
    "collecting": NODE,
    "excess": NODE,
    "opening": NODE,
    "weights": Axis("node", at=1),
    "sent": SENT,
    "got": HEARD,
    "seen": SENT,
    "worth": HEARD,
    "sent_in": SENT_IN_WINDOW,
    "got_in": SENT_IN_WINDOW,
    "worth_in": SENT_IN_WINDOW,
    "amount_bits": SENT,
}
PUSH_PULL = {
    "yz": NODE,
    "gradient": NODE,
    "speed": NODE,
    "last": NODE,
    "age": NODE,
    "given": SENT,
    "taken": HEARD,
    "header_bits": SENT,
}
MEMBERS = {"alive": NODE, "known": NODE, "side": NODE, "waiting": REPLICATED, "arriving": REPLICATED, "cut": REPLICATED}
SAMPLER = {"samples": COUNT, "last": REPLICATED, "batch": NODE, "spread": NODE}
COUPLING = {"sum": NODE, "weight": NODE, "peak": NODE, "sigma": NODE, "cpu_seconds": REPLICATED}

HOSTILE_LAYOUT: dict[str, Axis] = {
    f"{part}/{name}": axis
    for part, axes in {
        "mail": MAIL,
        "cpu_mail": MAIL,
        "cpu": LEDGER | POST,
        "model": PUSH_PULL | POST,
        "members": MEMBERS,
        "sampler": SAMPLER,
        "coupling": COUPLING,
    }.items()
    for name, axis in axes.items()
}
