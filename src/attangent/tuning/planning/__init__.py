"""What a fine-tuning run will come to, before it starts."""

from attangent._gate import guard
from attangent.tuning.planning.expected import Care
from attangent.tuning.planning.kernel_tuned import KernelTuned
from attangent.tuning.planning.making import plan_tuning
from attangent.tuning.planning.plan import Plan, PlannedRun, read_plan
from attangent.tuning.planning.trials import Trials

__all__ = ["Care", "KernelTuned", "Plan", "PlannedRun", "Trials", "plan_tuning", "read_plan"]

guard(globals())
