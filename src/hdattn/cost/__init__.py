"""What experiments cost, from their parameters, before anything runs.

A kind of experiment has a function from parameters to :class:`Work` (units of operations, and
memory); :data:`OPERATIONS` says what a unit takes. A new kind needs such a function here.
"""

from hdattn.cost.bundles import Job, jobs_of
from hdattn.cost.model import Estimate, estimate, work_of
from hdattn.cost.operations import OPERATIONS, Operation
from hdattn.cost.work import MODELS, Work

__all__ = [
    "MODELS",
    "OPERATIONS",
    "Estimate",
    "Job",
    "Operation",
    "Work",
    "estimate",
    "jobs_of",
    "work_of",
]
