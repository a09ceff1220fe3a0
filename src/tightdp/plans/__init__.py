"""Release plans: a file that says what is public, what to release, and what it may cost."""

from tightdp.answer import Answer
from tightdp.options import Option
from tightdp.plans.plan import Plan, PlanResult
from tightdp.plans.plan_preview import PlanPreview
from tightdp.plans.request import Request, request
from tightdp.registry import KINDS, Kind, register

__all__ = [
    "KINDS",
    "Answer",
    "Kind",
    "Option",
    "Plan",
    "PlanPreview",
    "PlanResult",
    "Request",
    "register",
    "request",
]
