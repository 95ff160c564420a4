"""Finds measured message times for a forecast: in the given rules file or profile, or in the rules of the current
folder."""

from __future__ import annotations

from pathlib import Path

from nearfield.base.errors import UsageError
from nearfield.forecast.message_times import MeasuredMessageTimes, message_times_of_profile, message_times_of_rules
from nearfield.rules.paths import default_rules_path


def find_message_times(rules: Path | None, profile: Path | None) -> MeasuredMessageTimes | None:
    """Returns the message times in the rules file, or in the profile, or in the rules that `nearfield run` would use;
    None if there are none. Raises UsageError if a given file has no message times, and the errors of reading it."""
    path = rules or (None if profile else default_rules_path())
    if path and (rules or path.is_file()):
        from nearfield.rules.schema import load_rules

        message_times = message_times_of_rules(load_rules(path), str(path))
        if message_times or not rules:
            return message_times
        raise UsageError(f"{path} has no times of messages", "name a profile with -p, or tune again")
    if not profile:
        return None
    from nearfield.profile import load

    message_times = message_times_of_profile(load(profile), str(profile))
    if not message_times:
        raise UsageError(f"{profile} has no stable times of messages", "probe again on a quiet machine")
    return message_times
