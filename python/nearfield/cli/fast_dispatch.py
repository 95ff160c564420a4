"""Starts `nearfield run` and the compilers with hooks without importing typer.

The import of typer dominates the start-up time, so the options of `dispatch`, `cc`, `cxx` and `fc` are parsed here.
Everything else, such as help and errors, is left to typer (cli/verbs/run.py declares the same options)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

COMPILERS = ("cc", "cxx", "fc")
_PARAMETER_BY_FLAG = {
    "--verbose": "verbose",
    "-v": "verbose",
    "--force": "force",
    "--explain": "explain",
    "--no-forecast": "no_forecast",
    "--collectives": "collectives",
}
_PARAMETER_BY_VALUE_OPTION = {"--rules": "rules", "--mpi": "mpi_name", "--log": "log", "--learn": "learn"}
_LOG_VARIABLE, _COLLECTIVES = "NEARFIELD_LOG", "NEARFIELD_COLLECTIVES"


def dispatch(arguments: Sequence[str]) -> bool:
    """Runs a `nearfield run` or compiler call if this module can parse it. Returns whether it did; on success this
    process is usually replaced by exec and does not return."""
    if arguments and arguments[0] in COMPILERS and arguments[1:] and arguments[1] != "--help":
        compile_with_hooks(arguments[0], arguments[1:])
    options = parse_run_arguments(arguments)
    if options is None:
        return False
    for name in ("rules", "learn"):
        if options[name] is not None:
            options[name] = Path(options[name])
    start_run(**options)
    return True


def parse_run_arguments(arguments: Sequence[str]) -> dict[str, Any] | None:
    """Parses the arguments of `nearfield run`. Returns its options and the command; None for anything else."""
    if not arguments or arguments[0] != "run":
        return None
    options: dict[str, Any] = {
        "rules": None, "mpi_name": None, "log": "", "verbose": False, "force": False, "explain": False,
        "no_forecast": False, "collectives": False, "learn": None,
    }  # fmt: skip
    rest = list(arguments[1:])
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            break
        if word in _PARAMETER_BY_FLAG:
            options[_PARAMETER_BY_FLAG[word]] = True
        elif name in _PARAMETER_BY_VALUE_OPTION and (equals or rest):
            options[_PARAMETER_BY_VALUE_OPTION[name]] = value if equals else rest.pop(0)
        else:
            return None
    return {**options, "argv": rest} if rest else None


def start_run(
    argv: list[str], rules: Path | None, verbose: bool, force: bool, mpi_name: str | None, explain: bool,
    log: str = "", no_forecast: bool = False, collectives: bool = False, learn: Path | None = None,
) -> None:  # fmt: skip
    """Replaces this process by the command, by exec, with the environment variables of the rules. With `explain` or a
    log, runs the command as a child under the counting layer instead, prints how its messages were copied or appends a
    line to the log, and exits with its exit code. With `collectives`, also preloads nearfield's collectives. With
    `learn`, runs the command as a child, counts its collectives and saves them to that file. With either, rules are
    optional. If NEARFIELD_OFF is set, does nothing but replace this process by the command."""
    from nearfield.apply.cached_plan import cached_launch_plan
    from nearfield.apply.launch_plan import AppliedRules
    from nearfield.base import all_nodes, shared_heap
    from nearfield.rules.paths import default_rules_path

    if shared_heap.is_nearfield_off(os.environ):
        _print_to_stderr("NEARFIELD_OFF is set: the command runs as it would without nearfield")
        exec_command(argv, {name: value for name, value in os.environ.items() if name != shared_heap.SITE_VARIABLE})
    if learn and (explain or collectives or log):
        from nearfield.base.errors import UsageError

        raise UsageError(
            "--learn counts collectives while the MPI does them", "leave out --explain, --log, --collectives"
        )
    if (collectives or learn) and rules is None and not default_rules_path().exists():
        loaded = "the shared heap and the collectives of a node are" if collectives else "the counter of collectives is"
        made = AppliedRules(notes=[f"there are no rules; only {loaded} loaded"])
    else:
        made = cached_launch_plan(argv, rules, force, mpi_name)
    environment = {**os.environ, **made.environment}
    if collectives:
        from nearfield.apply import collectives as node_collectives

        environment |= node_collectives.collectives_variables_for_command(argv, mpi_name, environment, _print_to_stderr)
    if (verbose or explain) and (collectives or _COLLECTIVES in made.environment):
        # summary=1 counts the direct collectives; summary=2 also times them
        environment[_COLLECTIVES] = ",".join(
            filter(None, [environment.get(_COLLECTIVES), "summary=2" if explain else "summary=1"])
        )
    if "LD_PRELOAD" in environment:
        environment |= all_nodes.variables_for_all_nodes(argv, environment)
    for note in [*made.warnings, *(made.notes if verbose else [])]:
        print(f"nearfield: {note}", file=sys.stderr)
    if learn:
        from nearfield.cli import learn as learning

        sys.exit(learning.run(argv, environment, learn, mpi_name))
    log = log or os.environ.get(_LOG_VARIABLE, "")
    if verbose or explain:
        from nearfield.apply import explain as explaining

        if verbose and (sentence := explaining.settings_sentence(environment)):
            print(f"nearfield: {sentence}", file=sys.stderr)
        if explain and no_forecast and not log:
            sys.exit(explaining.run_and_explain(argv, environment))
    if explain or log:
        from nearfield.forecast.watching import run_watched

        says = explain and not no_forecast
        sys.exit(
            run_watched(
                argv,
                environment,
                mpi_name=mpi_name,
                rules=rules,
                log=log,
                should_explain_copies=explain,
                should_print_ceiling=says,
            )
        )
    exec_command(argv, environment)


def _print_to_stderr(line: str) -> None:
    print(f"nearfield: {line}", file=sys.stderr)


def compile_with_hooks(verb: str, arguments: Sequence[str]) -> None:
    """Replaces this process by the real compiler of the language, by exec, with arguments that insert hooks at loads
    and stores."""
    from nearfield.observe import hooks

    exec_command(hooks.compiler_command(hooks.LANGUAGES[verb], arguments), dict(os.environ))


def exec_command(argv: Sequence[str], environment: dict[str, str]) -> None:
    """Replaces this process by the command, by exec, with the signal dispositions that Python has changed restored."""
    import signal

    from nearfield.cli.signals import raise_deferred

    raise_deferred()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these signals, and exec preserves ignored signals
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], list(argv), environment)
    except OSError as error:
        from nearfield.base.errors import MpiError

        raise MpiError(f"cannot start {argv[0]}: {error.strerror}") from error
