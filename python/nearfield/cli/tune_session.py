"""A call of `nearfield tune` for one or several MPIs: its options, progress, and handling of Ctrl-C."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from nearfield.base.errors import NearfieldError, UsageError
from nearfield.base.progress import Progress
from nearfield.rules.applicability import rules_mismatches
from nearfield.rules.schema import Rules, load_rules, require_writable_rules_file, save_rules
from nearfield.tune.request import TuneRequest
from nearfield.tune.trial_log_file import TrialLogFile
from nearfield.tune.tuning import Tuning
from nearfield.ui.progress import ProgressDisplay

INTERRUPTED = 130  # exit code after Ctrl-C, as in shells: 128 + SIGINT

# Parameter of the command -> field of Request that it sets.
_REQUEST_FIELDS = {
    "mpi_name": "mpi", "budget": "budget_s", "distance": "distances", "memory": "memory_limit_bytes",
    "ranks_per_node": "ranks_per_node", "max_regression": "never_below", "sizes": "sizes", "exhaustive": "exhaustive",
}  # fmt: skip


@dataclass(frozen=True)
class TuneOptions:
    """The options of `nearfield tune` that the user typed."""

    request: TuneRequest
    given: frozenset[str]  # names of the parameters that the user typed
    resume: bool
    overwrite: bool
    confirm_best: bool = False

    def require_free(self, unfinished: TrialLogFile) -> None:
        """Raises ProfileError if a new tune would overwrite an interrupted one, unless --overwrite allows it."""
        if not (self.resume or self.overwrite):
            unfinished.require_no_interrupted_tune()

    def begin(self, unfinished: TrialLogFile, mpi_name: str | None = None) -> TuneRequest:
        """Returns the request for the rules of this trial log. With `--resume`, returns the request of the interrupted
        tune, and raises UsageError if an option typed now differs from it. `mpi_name` is the MPI of this log if all
        MPIs are tuned."""
        if not self.resume:
            request = replace(self.request, mpi=mpi_name or self.request.mpi)
            unfinished.record_request(request)
            return request
        request = unfinished.read_request()
        for name, field in _REQUEST_FIELDS.items():
            now, then = getattr(self.request, field), getattr(request, field)
            if name in self.given and now != then:
                option = "--" + name.removesuffix("_name").replace("_", "-")
                if name == "max_regression":
                    now, then = (f"{1 - share:.6g}" for share in (now, then))
                raise UsageError(
                    f"cannot resume: {option} was {_format_option(then)}, and is {_format_option(now)} now",
                    f"leave {option} out to continue, or start again with --overwrite",
                )
        require_writable_rules_file(unfinished.rules)
        return request


def _format_option(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "not given"
    return "not given" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def is_saved(rules: Rules) -> bool:
    """Returns whether these rules should be written to a file: not if they set nothing because nothing was decided."""
    return rules.has_any_setting or not rules.undecided


def keep_collectives(rules: Rules, path: Path) -> None:
    """Copies the algorithms of collectives from the rules file at `path` to the new rules, if the file is for the same
    MPI and kind of machine, because a tune of messages does not measure collectives."""
    try:
        old = load_rules(path)
    except NearfieldError:
        return
    if rules_mismatches(old, rules.mpi.family, rules.mpi.version, rules.machine):
        return
    for rule in rules.rule:
        rule.collective = next((one.collective for one in old.rule if one.distance == rule.distance), [])


def tune_and_save(
    unfinished: TrialLogFile, request: TuneRequest, *, confirm_best: bool = False, prefix: str = ""
) -> Rules | None:
    """Tunes one MPI and saves its rules. Returns the rules; None after Ctrl-C, when only finished trials are saved.
    Saves no rules if some core distances are undecided and the others set nothing. Removes the trial log only when the
    rules are complete. With `confirm_best`, only confirms the best candidate of an earlier session, in few
    measurements. `prefix` is prepended to all progress lines."""
    try:
        with ProgressDisplay() as display:

            def report(event: str | Progress) -> None:
                display(prefix + event if isinstance(event, str) else replace(event, phase=prefix + event.phase))

            rules = Tuning(request, report, unfinished, only_confirms=confirm_best).run()
            if is_saved(rules):
                keep_collectives(rules, unfinished.rules)
                save_rules(rules, unfinished.rules)
    except KeyboardInterrupt:
        return None
    if not (confirm_best or rules.undecided):
        unfinished.remove_file()
    return rules
