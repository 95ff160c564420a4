"""The files of a measurement and of tunes that were interrupted, and what reads them when they are resumed."""

from __future__ import annotations

from pathlib import Path

from reader import DATA


def write_launches(folder: Path) -> None:
    from engine_lines import HEADER, end, missing, samples, state, write

    lines = [HEADER, samples([100.0 + i for i in range(20)], side="sender"), state("sender", "verified"), end()]
    write(folder, [*lines, missing("misses"), end("floor")], lines)
    from nearfield.measure.checkpoint import CheckpointFolder
    from nearfield.measure.request import Request

    with CheckpointFolder(folder / "p").lock_with_request(Request(tier="quick"), is_new=True):
        pass


def read_launches(folder: Path) -> None:
    from engine_lines import KIND_OF, PAIR

    from nearfield.measure.live.collect import collect_launches, finished_scenarios, output_to_rows
    from nearfield.measure.live.launch import LaunchJob
    from nearfield.measure.live.lines import find_damaged_line
    from nearfield.measure.request import TIERS
    from nearfield.profile import records

    job = LaunchJob(PAIR, 0, dict.fromkeys(KIND_OF, 1.0))
    finished_scenarios(job, folder)
    for file in job.attempt_files(folder):
        find_damaged_line(file, KIND_OF)
    records.from_rows(output_to_rows(collect_launches([job], folder, KIND_OF), TIERS["quick"], resolution_ns=10.0))


def read_request(folder: Path) -> None:
    from nearfield.measure.checkpoint import CheckpointFolder

    CheckpointFolder(folder / "p").read_request()
    CheckpointFolder(folder / "p").read_spent_seconds()


def write_trials(folder: Path) -> None:
    from nearfield.base.paired import Gain
    from nearfield.rules.schema import load_rules
    from nearfield.tune.request import TuneRequest
    from nearfield.tune.search import Trial
    from nearfield.tune.trial_log import RuleLine, TrialLine
    from nearfield.tune.trial_log_file import TrialLogFile

    rules = load_rules(DATA / "rules" / "openmpi-5.0.11.toml")
    gains = {("pingpong", 8): Gain(1.1, 1.0, 1.2, 30), ("pingpong", 65536): Gain(1.3, 1.2, 1.4, 30)}
    with TrialLogFile(folder / "t.toml").open_locked(resume=False) as unfinished:
        unfinished.record_request(TuneRequest(command="nearfield tune"))
        for number in range(3):
            trial = Trial({"eager_bytes": 4096 << number}, "search", gains=gains, state="measured", c2c_latency_ns=50.0)
            unfinished.add(TrialLine.from_trial("shared-l3", float(number), trial))
        unfinished.add(RuleLine(distance=rules.rule[0].distance, spent_s=5.0, rule=rules.rule[0]))


def read_trials(folder: Path) -> None:
    from nearfield.rules.knobs import find_knobs
    from nearfield.tune.trial_log_file import TrialLogFile

    with TrialLogFile(folder / "t.toml").open_locked(resume=True) as unfinished:
        unfinished.read_request()
        knobs = find_knobs("openmpi", "5.0.11", "ob1 / sm")
        unfinished.drop_inconsistent_lines(knobs, [("pingpong", 8), ("pingpong", 65536)])
        for distance in unfinished.tried_distances():
            unfinished.trials(distance), unfinished.rule(distance), unfinished.spent_s(distance)
        unfinished.describe_content()


def write_launch_log(folder: Path) -> None:
    from nearfield.tune.launch_log import LaunchLog

    names = ("flat", "doubling", "mpi")
    with LaunchLog(folder / "rules.toml").open_locked() as log:
        for number in range(4):
            rows: list[dict[str, object]] = [
                {"operation": "allreduce", "bytes": size, "arrival": arrival, "latency_ns": 80.0 + number,
                 "samples": {name: [100.0 + size + index, 130.0 + index] for index, name in enumerate(names)}}
                for size in (8, 64, 1024) for arrival in ("together", "late")
            ]  # fmt: skip
            log.add_launch("here 0,1", [*rows, {"latency_ns": 81.0}])


def read_launch_log(folder: Path) -> None:
    from nearfield import mpi
    from nearfield.tune.collectives import CollectiveTuning
    from nearfield.tune.launch_log import LaunchLog

    with LaunchLog(folder / "rules.toml").open_locked() as log:
        tuning = CollectiveTuning(
            mpi.find_usable_mpis()[0], (0, 1), 10, operations=["allreduce"], sizes=(8, 1024), log=log
        )
        tuning.use_logged_launches("here 0,1")
        for cell in tuning.cells.values():
            cell.best_algorithm(), cell.is_decided(), cell.has_clear_choice()
