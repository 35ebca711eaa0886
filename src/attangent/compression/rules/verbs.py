"""English verb forms: "review", "reviews" and "reviewed"."""

import re

_IRREGULAR = {
    "led": "lead", "given": "give", "kept": "keep", "made": "make", "held": "hold", "sold": "sell",
    "run": "run", "taught": "teach", "built": "build", "written": "write", "found": "find",
    "grown": "grow", "won": "win", "sent": "send", "paid": "pay", "shown": "show", "bought": "buy",
    "lent": "lend", "brought": "bring", "taken": "take", "drawn": "draw", "set": "set", "shut": "shut",
    "thrown": "throw", "left": "leave", "chosen": "choose", "heard": "hear", "worn": "wear",
    "driven": "drive", "spent": "spend", "fed": "feed", "caught": "catch", "told": "tell",
}  # fmt: skip
# Past tenses that differ from the participle.
_PAST = {
    "given": "gave", "run": "ran", "written": "wrote", "grown": "grew", "shown": "showed",
    "taken": "took", "drawn": "drew", "thrown": "threw",
    "chosen": "chose", "worn": "wore", "driven": "drove",
}  # fmt: skip
# Ends of stems whose base form ends in e: approv, organis, announc, handl, operat, decid, hir, combin.
_SILENT_E = re.compile(
    r"(?:[vczgu]|(?<!s)s|[bcdfgkpt]l|[^aeou]at|[^aeiou]id|[^aeiou][iu]r|[^aeiou]in|(?:st|sc|gn|pl)or|ak)$"
)
DONE = (
    rf"(?P<done>(?:\w+ed|{'|'.join(_IRREGULAR)}|open|due|valid)"
    r"(?: (?:back|out|off|away|up|alone|indoors|outdoors|inside|outside))?)"
)
"""Pattern of a participle with its particle, as in "thrown away", or of an adjective such as "open"."""


def base_form(participle: str) -> str:
    """Return "review" for "reviewed" and "give" for "given"; empty for unknown irregular verbs."""
    if participle in _IRREGULAR or not participle.endswith("ed"):
        return _IRREGULAR.get(participle, "")
    stem = participle[:-2]
    if stem.endswith("i"):
        return f"{stem[:-1]}y"
    if re.search(r"([bdgmnprt])\1$", stem):
        return stem[:-1]
    return f"{stem}e" if _SILENT_E.search(stem) else stem


def past_tense(participle: str) -> str:
    """Return "gave" for "given"; regular verbs are unchanged."""
    return _PAST.get(participle, participle)


def third_person(base: str) -> str:
    """Return "reviews" for "review" and "supplies" for "supply"."""
    if re.search(r"[^aeiou]y$", base):
        return f"{base[:-1]}ies"
    return f"{base}es" if base.endswith(("ch", "sh", "ss", "x")) else f"{base}s"


def infinitive(verb: str) -> str:
    """Return "weigh" for "weighs"; empty for other words than verbs in the third person."""
    if verb == "has":
        return "have"
    if not verb.endswith("s") or verb in ("is", "was", "costs") or verb.endswith("ss"):
        return ""
    if verb.endswith("ies"):
        return f"{verb[:-3]}y"
    return verb[:-2] if verb.endswith(("ches", "shes", "sses", "xes", "oes")) else verb[:-1]
