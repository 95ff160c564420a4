"""The transformations of communication order, one per file."""

from nearfield.rewrite.model.schedule import Transformation
from nearfield.rewrite.model.schedules import cut, late_receive, late_wait, overlap, reverse, strip_mine, warm_send

TRANSFORMATIONS: tuple[Transformation, ...] = (
    warm_send.SPEC,
    late_receive.SPEC,
    reverse.SPEC,
    overlap.SPEC,
    strip_mine.SPEC,
    cut.SPEC,
    late_wait.SPEC,
)
TRANSFORMATION_NAMES = tuple(one.name for one in TRANSFORMATIONS)

__all__ = ["TRANSFORMATION_NAMES", "TRANSFORMATIONS"]
