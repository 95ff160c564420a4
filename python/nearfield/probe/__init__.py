"""Measuring: what to launch (layout, tiers), launching it (session), and making records of what came back (collect)."""

from nearfield.probe.request import Request
from nearfield.probe.session import Listener, Outcome, probe
from nearfield.probe.tiers import TIERS

__all__ = ["TIERS", "Listener", "Outcome", "Request", "probe"]
