"""Old home of `attangent.tuning.tune` and `TuningRequest`."""

from attangent._core.deprecation import moved_names

_HOMES = {"Tuning": "attangent.tuning:TuningRequest", "finetune": "attangent.tuning:tune"}
__getattr__ = moved_names(__name__, "0.2", _HOMES)
