"""Plans from ``torch.distributed.pipelining``: its schedules, with the stage modules of the user.

path = tantamount.plan_of_schedule(Schedule1F1B, stages, loss=loss, batch=(x,), target=y, ...)
print(tantamount.verify_plan(path))
"""

from tantamount.capture.torch.pipelining.plan import plan_of_schedule

__all__ = ["plan_of_schedule"]
