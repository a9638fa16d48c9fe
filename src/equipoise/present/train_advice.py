"""What a user can do about a certificate of train that failed."""

from __future__ import annotations

from equipoise.document import Document, Row

CLOSING = ("kkt", "gradient", "tracker", "consensus", "gap")  # checks that more rounds may pass
TELLS_APART = 0.6  # an area under the curve that more than chance gives


def advice(document: Document) -> str:
    """What a user can do about a failed certificate; empty where it passed."""
    result, certificate = document.result, document.certificate
    if certificate is None or certificate.passed:
        return ""
    if result["status"] == "diverged":
        return "The run diverged: leave --step, --alpha and --cap at auto, or lower --rho."
    if "box" in certificate and not certificate["box"].passed:
        return "Shares left their boxes: a penalty cannot hold them; use --box price."
    if result.get("trouble"):
        return "The survivors cannot reach their optimum: see trouble above; heal the split, or widen --hi."
    if "loss" in certificate and not certificate["loss"].passed:
        return "The net did not learn enough: raise --rounds, or give another --alpha."
    if any(name in certificate and certificate[name].passed is False for name in CLOSING):
        if result["status"] == "finished" and result["message"]["mode"] == "innovation":
            return "The rounds ran out: raise --rounds, or ask for less with --target."
        return "The gap does not close: these messages leave a residual; the default, --mode innovation, does not."
    if "baseline" in certificate and certificate["baseline"].passed is False:
        return _useless(document)
    return ""


def _useless(document: Document) -> str:
    """What to try when models say no more of held-out rows than the constant answer."""
    row: Row = next((row for row in document.result.get("scores", []) if row["model"] == "worst centre"), {})
    if "r2" in row:
        return "The models predict no better than the mean. If a few very large values rule, predict the label's logarithm."
    weighted = bool(document.config.get("class_weight"))
    if not weighted and (row.get("auc") or 0.0) > TELLS_APART:
        return (
            f"The models tell classes apart (AUC {row['auc']:.2f}), but name the frequent one nearly always: "
            "--class-weight balanced."
        )
    rare = "" if weighted else " If one class is rare, try --class-weight balanced."
    return f"The models know little more than the most frequent answer: the columns say little of the label.{rare}"
