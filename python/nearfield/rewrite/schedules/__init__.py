"""The transformations, one file each."""

from nearfield.rewrite.parts import Transformation
from nearfield.rewrite.schedules import late_receive, overlap, reverse, warm_send

TRANSFORMATIONS: tuple[Transformation, ...] = (
    warm_send.SPEC,
    late_receive.SPEC,
    reverse.SPEC,
    overlap.SPEC,
)
NAMES = tuple(one.name for one in TRANSFORMATIONS)

__all__ = ["NAMES", "TRANSFORMATIONS"]
