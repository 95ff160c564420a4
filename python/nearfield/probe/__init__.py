"""Measuring: what to launch (layout, tiers), launching it (session), and making records of what came back (collect)."""

from nearfield.probe.session import Request, probe
from nearfield.probe.tiers import TIERS

__all__ = ["TIERS", "Request", "probe"]
