"""Release plans: a file that says what is public, what to release, and what it may cost."""

from tightdp.answer import Answer
from tightdp.plans.kinds import KINDS, Kind, Request, model_kind, register, request
from tightdp.plans.options import Option
from tightdp.plans.plan import Plan, PlanPreview, PlanResult

__all__ = [
    "KINDS",
    "Answer",
    "Kind",
    "Option",
    "Plan",
    "PlanPreview",
    "PlanResult",
    "Request",
    "model_kind",
    "register",
    "request",
]
